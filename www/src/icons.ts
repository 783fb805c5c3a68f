/** The icons: one stroke path each on a 24 x 24 grid, drawn by hand so that nothing is fetched. */

const PATHS = {
  alert: "M12 8.5v4.5M12 16.6v.1M10.3 4.2 2.9 17.1A2 2 0 0 0 4.6 20h14.8a2 2 0 0 0 1.7-2.9L13.7 4.2a2 2 0 0 0-3.4 0Z",
  all: "M12 3 3 7.5 12 12l9-4.5L12 3ZM3 12l9 4.5 9-4.5M3 16.5 12 21l9-4.5",
  avion: "M10.2 13.8 4 16v-2l6.2-4V5.2a1.8 1.8 0 0 1 3.6 0V10l6.2 4v2l-6.2-2.2v4.4l2 1.6V21L12 20l-3.8 1v-1.2l2-1.6v-4.4Z",
  check: "m5 12.5 4.5 4.5L19 7.5",
  close: "M6 6l12 12M18 6 6 18",
  closed: "M7 12h10M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  copy: "M9 9h10v11H9zM15 9V5H5v11h4",
  device: "M8 3h8a2 2 0 0 1 2 2v14a2 2 0 0 1-2 2H8a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2ZM11 18h2",
  down: "m6 9.5 6 6 6-6",
  eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12ZM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6Z",
  eyeOff: "m4 4 16 16M9.9 5.8A9 9 0 0 1 12 5.5c6 0 9.5 6.5 9.5 6.5a17 17 0 0 1-2.9 3.6M6.3 7.4A16 16 0 0 0 2.5 12S6 18.5 12 18.5a9 9 0 0 0 4.3-1.1M10 10a3 3 0 0 0 4.1 4.2",
  edit: "M4 20h4L19.500 8.500a2.1 2.1 0 0 0-4-3.500L4 16v4ZM14 6.500l3.500 3.500",
  external: "M14 4h6v6M20 4l-9 9M18 14v5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1h5",
  follow: "M4 7h9M4 12h6M4 17h5M17 11v8M13 15h8",
  incognito: "M3 12h18M6.5 12 8 5.5h8l1.5 6.500M7.5 19.500a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.600ZM16.5 19.500a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.600ZM10.3 16.200c1-.7 2.4-.7 3.4 0",
  inspector: "M4 5h16M4 10h7M4 15h5M15.5 18a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM18.5 17l3 3",
  key: "M14.5 4.500a5 5 0 1 0 0 10 5 5 0 0 0 0-10ZM10.8 13.2 4 20M6 18l2 2M9 15l1.5 1.5",
  list: "M9 6h11M9 12h11M9 18h11M4.5 6h.1M4.5 12h.1M4.5 18h.1",
  live: "M12 14a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM7.8 16.200a6 6 0 0 1 0-8.400M16.2 7.800a6 6 0 0 1 0 8.400M5 19a10 10 0 0 1 0-14M19 5a10 10 0 0 1 0 14",
  largest: "M5 20V4M5 6.500h14M5 12h9M5 17.500h5",
  loading: "M12 4v10M8 10.500l4 4 4-4M5 19h14",
  lock: "M6 11h12v9H6zM8.5 11V7.500a3.5 3.5 0 0 1 7 0V11",
  next: "m9.5 6 6 6-6 6",
  offline: "m4 4 16 16M8.5 15.500a5 5 0 0 1 7 0M5 12a10 10 0 0 1 3.7-2.400M19 12a10 10 0 0 0-5.5-2.900M2.5 8.500a14 14 0 0 1 3.7-2.400M21.5 8.500A14 14 0 0 0 11 4.700M12 19.500h.1",
  opening: "M12 3v3M12 18v3M3 12h3M18 12h3M5.6 5.600l2.2 2.200M16.2 16.200l2.2 2.200M5.6 18.400l2.2-2.200M16.2 7.800l2.2-2.2",
  outbox: "M4 13.500V19h16v-5.500M4 13.500 6.500 8M20 13.500 17.500 8M4 13.500h4.500l1.500 2.500h4l1.500-2.500H20M12 11.500V3.500M9 6.500l3-3 3 3",
  paused: "M9 6v12M15 6v12",
  pending: "M12 7v5l3 2M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  plus: "M12 5v14M5 12h14",
  previous: "m14.5 6-6 6 6 6",
  restore: "M4.500 4.500v5h5M5 9.500a8 8 0 1 1-.8 5.500",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM15.5 15.5 20 20",
  session: "M12 8.500h.1M12 12h.1M12 15.500h.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18Z",
  sync: "M4.5 10a8 8 0 0 1 14-3.500L20 8M20 4v4h-4M19.5 14a8 8 0 0 1-14 3.500L4 16M4 20v-4h4",
  trash: "M4 7h16M9.5 7V4.500h5V7M6.5 7l1 13h9l1-13M10 11v5M14 11v5",
} as const;

/** The name of an icon. */
export type IconName = keyof typeof PATHS;

const SVG = "http://www.w3.org/2000/svg";

/** An icon, for the eye only: the text next to it, or the control's label, says the same. */
export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** The logo of the project: a route, and its port of call. */
export function logo(): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 32 32");
  svg.setAttribute("class", "logo");
  svg.setAttribute("aria-hidden", "true");
  for (const [name, d] of [
    ["route", "M3 25C8 25 9 19 12.5 17.400M19.5 14.600C23 13 24 7 29 7"],
    ["port", "M16 20.500a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9Z"],
  ] as const) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}
