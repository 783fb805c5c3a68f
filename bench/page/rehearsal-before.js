// Stands for `escale/rehearsal` in pages of a build of Escale that does not have it.
export const rehearsal = true;
