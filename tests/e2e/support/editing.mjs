// How a visitor of the demonstration finds, opens and edits a package.

/** The packages of a list that the filter finds alone by their names. */
export const foundAlone = (list) =>
  list.filter(({ name }) => list.filter((one) => `${one.name} ${one.summary}`.toLowerCase().includes(name)).length === 1);

/** Shows one package of the list alone. */
export async function finds(visitor, { name }) {
  await visitor.on("filter").fill(name);
  await visitor.seesListed(1);
  return visitor.page.locator(`[data-testid="row"][data-name="${name}"]:not([hidden])`);
}

/** Opens it. */
export async function opens(visitor, document) {
  await (await finds(visitor, document)).click();
  await visitor.on("detail-name").filter({ hasText: document.name }).waitFor();
}

export async function closes(visitor) {
  await visitor.on("detail-close").click();
  await visitor.on("filter").fill("");
}

/** Opens it, and saves another summary or section. */
export async function edits(visitor, document, { summary, section }) {
  await opens(visitor, document);
  await visitor.on("edit").click();
  await visitor.look("the form of an edit");
  if (summary !== undefined) await visitor.on("edit-summary").fill(summary);
  if (section !== undefined) await visitor.on("edit-section").selectOption(section);
  await visitor.on("edit-save").click();
}
