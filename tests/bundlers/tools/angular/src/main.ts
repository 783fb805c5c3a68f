import { Component } from "@angular/core";
import { bootstrapApplication } from "@angular/platform-browser";

import { show } from "./page.js";

@Component({ selector: "app-root", template: "<p>A page of Angular</p>" })
class App {
  constructor() {
    void show();
  }
}

void bootstrapApplication(App);
