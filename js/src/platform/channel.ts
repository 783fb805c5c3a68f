/** Messages between the tabs of an origin. */

/** A channel. Undefined where browsers have none. */
export function channelOf(name: string, hear: (message: unknown) => void): BroadcastChannel | undefined {
  if (typeof BroadcastChannel === "undefined") return undefined;
  const channel = new BroadcastChannel(name);
  channel.onmessage = ({ data }) => hear(data);
  // In Node a channel would keep the process alive.
  (channel as { unref?: () => void }).unref?.();
  return channel;
}
