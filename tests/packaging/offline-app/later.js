// In a chunk of its own, whose name differs between versions.
export const version = `later ${import.meta.env.VITE_VERSION}`;
