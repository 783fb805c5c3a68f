export const title = "Angular";
const core = { "@angular/core": "22.2.6", "@angular/common": "22.2.6", "@angular/compiler": "22.2.6", "@angular/platform-browser": "22.2.6" };
const tools = { "@angular/build": "22.2.7", "@angular/cli": "22.2.7", "@angular/compiler-cli": "22.2.6", typescript: "6.0.3" };
export const versions = { angular: { ...core, ...tools, rxjs: "7.8.2", tslib: "2.9.1", node: "22.23.3" } };
export const cells = [
  { what: "development server", serve: "ng serve --port {port}" },
  { what: "build", build: "ng build", folder: "dist/project/browser", offline: { files: "dist/project/browser", options: "--fallback index.html" } },
];
