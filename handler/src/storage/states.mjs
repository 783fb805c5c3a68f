/** The states of a row, each by its number in a database. */
export const STATES = ["alive", "deleted", "left"];
export const stateOf = ({ state }) => STATES.indexOf(state);
