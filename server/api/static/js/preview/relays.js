// @ts-check
/** Which relays (TURN) the server knows for clients behind firewalls. It has none unless it was told of some. */
import { call } from "../shared/api.js";

/** For one connection: the credentials expire. @returns {Promise<RTCIceServer[]>} */
export async function relays() {
  return (await call("GET", "/v1/ice-servers")).data;
}
