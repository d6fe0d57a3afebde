"""Media in and out over WebRTC. A leaf: knows frames and clocks, not tensors or the engine."""
