"use client";

import { useEffect } from "react";

import { show } from "../src/page.js";

export default function Page() {
  useEffect(() => void show(), []);
  return <p>A page of Next</p>;
}
