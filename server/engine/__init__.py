"""The engine: decides which chunks run next and runs them. No FastAPI, no aiortc, no asyncio."""
