/**
 * The sentences of `escale/advice`: for each code one in English and one in French.
 *
 * Each says the event and the next step in one or two short sentences, for a person who knows nothing of programs. It is
 * true wherever the code can appear. So none promises that the application tries again by itself: a failed `open` does
 * not. None sends a person away from changes that only the memory has. `site/build/errors.mjs` reads this file as text.
 */

import type { ErrorCode } from "../error-codes.js";

/** A text in each language. */
export type Sentence = readonly [english: string, french: string];

/** Mistakes of a program: a person can do nothing about them. */
const MISTAKE: Sentence = [
  "Something went wrong in this application. If it happens again, please tell the people who run it.",
  "Un problème est survenu dans cette application. S'il se reproduit, veuillez prévenir ses responsables.",
];

/** The network, not the service, may be the cause. */
const AWAY: Sentence = [
  "The service cannot be reached at present. Check your connection, or try again later.",
  "Le service est injoignable pour le moment. Vérifiez votre connexion ou réessayez plus tard.",
];

/** The service is there. Its reason is of no use to a person. */
const LATER: Sentence = [
  "The service cannot do this at present. Please try again later.",
  "Le service ne peut pas le faire pour le moment. Veuillez réessayer plus tard.",
];

const NOT_FOUND: Sentence = [
  "This was not found. Perhaps it was deleted, or its name is not right.",
  "Cet élément est introuvable. Il a peut-être été supprimé ou son nom est inexact.",
];

const NO_PERMISSION: Sentence = [
  "You do not, or no longer, have permission for this. Ask your administrator for it.",
  "Vous n'avez pas ou plus cette autorisation. Demandez-la à votre administrateur.",
];

const RESTRICTED: Sentence = [
  "Your account or organisation is closed or restricted at present. Ask your administrator about it.",
  "Votre compte ou votre organisation est actuellement fermé ou limité. Adressez-vous à votre administrateur.",
];

const SIGNED_OUT: Sentence = [
  "This device is not, or no longer, signed in. Please sign in again.",
  "Cet appareil n'est pas ou plus relié à votre compte. Veuillez vous identifier à nouveau.",
];

const INVITATION: Sentence = [
  "You need a valid invitation to open an account here. Ask your administrator for one.",
  "Il faut une invitation valable pour ouvrir un compte ici. Demandez-en une à votre administrateur.",
];

/** A newer page may be at the server already. */
const VERSIONS: Sentence = [
  "This page does not have the version that its data needs. Reload the page, or try again later.",
  "Cette page n'a pas la version que ses données exigent. Rechargez la page ou réessayez plus tard.",
];

/** A session may go on in memory, so a restart at once could lose changes. */
const STORAGE: Sentence = [
  "This browser has trouble storing data. If none of your changes wait to be sent, restart it.",
  "Ce navigateur a du mal à enregistrer des données. Si aucune de vos modifications n'attend d'être envoyée, redémarrez-le.",
];

const ELSEWHERE: Sentence = [
  "Another tab or window uses the data. Continue there, or close it and try again.",
  "Un autre onglet ou une autre fenêtre utilise les données. Continuez là-bas ou réessayez après sa fermeture.",
];

const DAMAGED: Sentence = [
  "Some data was damaged, on this device or on its way. Try again later with a connection.",
  "Des données ont été endommagées, sur cet appareil ou en chemin. Réessayez plus tard avec une connexion.",
];

const NOT_HERE: Sentence = [
  "This is not on the device yet. Open it once with a connection.",
  "Cet élément n'est pas encore sur l'appareil. Ouvrez-le une fois avec une connexion.",
];

/** A word of the rules of values. */
export type RuleWord = "required" | "type" | "enum" | "minimum" | "maximum" | "minLength" | "maxLength" | "maxItems" | "additionalProperties";

/** Each sentence with `#` where the limit is. A text of no characters lacks an entry. */
export const OF_RULES: { readonly [W in RuleWord]?: Sentence } = {
  required: [
    "Something is missing that is needed here. Please complete your entry.",
    "Une information obligatoire manque ici. Veuillez compléter votre saisie.",
  ],
  type: [
    "An entry does not have the right form, such as a text in the place of a number. Please correct it.",
    "Une saisie n'a pas la bonne forme, par exemple un texte à la place d'un nombre. Veuillez la corriger.",
  ],
  enum: [
    "This choice is not possible here. Please choose another one.",
    "Ce choix n'est pas possible ici. Veuillez en faire un autre.",
  ],
  minimum: ["A number is too small. The smallest is #.", "Un nombre est trop petit. Le plus petit possible est #."],
  maximum: ["A number is too large. The largest is #.", "Un nombre est trop grand. Le plus grand possible est #."],
  minLength: [
    "A text is too short. The fewest characters are #.",
    "Un texte est trop court. Le nombre minimal de caractères est #.",
  ],
  maxLength: [
    "A text is too long. The most characters are #.",
    "Un texte est trop long. Le nombre maximal de caractères est #.",
  ],
  maxItems: ["A list is too long. The most entries are #.", "Une liste est trop longue. Le nombre maximal d'entrées est #."],
};

/** The sentence of each code. */
export const SENTENCES: Readonly<Record<ErrorCode, Sentence>> = {
  bad_option: MISTAKE,
  bad_schema: MISTAKE,
  bad_value: MISTAKE,
  bad_key: MISTAKE,
  unknown_class: MISTAKE,
  unknown_def: MISTAKE,
  unknown_index: MISTAKE,
  // Lists and counts that lack something say so.
  too_many_subscriptions: [
    "Too much data is loaded at once, so some may be missing here. Please tell the people who run this application.",
    "Trop de données sont chargées à la fois, il peut donc en manquer ici. Veuillez prévenir les responsables de cette application.",
  ],
  unknown_operation: MISTAKE,
  key_mismatch: MISTAKE,
  immutable_key: MISTAKE,
  not_found: NOT_FOUND,
  version_conflict: [
    "This was changed elsewhere in the meantime. Look at it again, then repeat your change.",
    "Cet élément a été modifié ailleurs entre-temps. Consultez-le à nouveau, puis refaites votre modification.",
  ],
  not_unique: [
    "This value is already in use. Please choose another one.",
    "Cette valeur est déjà utilisée. Veuillez en choisir une autre.",
  ],
  quota_exceeded: [
    "The limit for this is reached. Delete something that you no longer need, or ask your administrator for more room.",
    "La limite est atteinte. Supprimez ce dont vous n'avez plus besoin ou demandez plus de place à votre administrateur.",
  ],
  file_missing: [
    "A file that belongs to this is missing. Please add the file again.",
    "Un fichier joint est manquant. Veuillez l'ajouter à nouveau.",
  ],
  file_damaged: DAMAGED,
  not_supported: [
    "This application or this browser cannot do that. Another browser may help.",
    "Cette application ou ce navigateur ne le permet pas. Un autre navigateur pourrait convenir.",
  ],
  // A network that asks for a sign-in answers in the place of the server.
  malformed: [
    "The service cannot be understood. If your network asks you to sign in, do that first.",
    "La réponse du service est incompréhensible. Si votre réseau vous demande de vous identifier, faites-le d'abord.",
  ],
  bad_reply: MISTAKE,
  server_refused: [
    "This was not accepted. Check your entries, or ask the people who run this application.",
    "Cela n'a pas été accepté. Vérifiez votre saisie ou adressez-vous aux responsables de cette application.",
  ],
  too_large: [
    "This is too large. Make it smaller, or divide it.",
    "C'est trop volumineux. Réduisez-en la taille ou divisez le contenu.",
  ],
  too_deep: MISTAKE,
  wrong_protocol: VERSIONS,
  offline: AWAY,
  timeout: AWAY,
  unauthorized: SIGNED_OUT,
  forbidden: NO_PERMISSION,
  withdrawn: NO_PERMISSION,
  blocked: RESTRICTED,
  unknown_org: NOT_FOUND,
  too_many: LATER,
  unavailable: LATER,
  server_error: LATER,
  contention: LATER,
  order_gap: LATER,
  order_held: [
    "This change depends on an earlier one that was not accepted. Decide about the earlier one first.",
    "Cette modification dépend d'une autre qui n'a pas été acceptée. Décidez d'abord du sort de cette dernière.",
  ],
  session_reused: LATER,
  bad_cursor: LATER,
  forgotten: [
    "This was done some time ago. Its result is no longer available.",
    "Cela a été fait il y a quelque temps. Le résultat n'est plus disponible.",
  ],
  bad_login: [
    "This name cannot be used to sign in. Please choose another one.",
    "Ce nom ne peut pas servir d'identifiant. Veuillez en choisir un autre.",
  ],
  login_taken: [
    "This name already belongs to an account. Choose another one, or sign in.",
    "Ce nom appartient déjà à un compte. Choisissez-en un autre ou identifiez-vous.",
  ],
  invitation_unknown: INVITATION,
  invitation_needed: INVITATION,
  last_admin: [
    "There must always be at least one administrator. Make somebody else an administrator first.",
    "Il faut toujours au moins un administrateur. Donnez d'abord ce rôle à une autre personne.",
  ],
  account_closed: RESTRICTED,
  device_revoked: SIGNED_OUT,
  passphrase_changed: [
    "The passphrase of this account was changed. Please enter the new one.",
    "La phrase de passe de ce compte a été changée. Veuillez saisir la nouvelle.",
  ],
  account_mismatch: [
    "This device holds the data of another account with this name. Use another browser, or delete that data here first.",
    "Cet appareil contient les données d'un autre compte de ce nom. Utilisez un autre navigateur ou supprimez d'abord ces données ici.",
  ],
  // A recovery code, and a passkey that its owner does not confirm, have this code too.
  wrong_passphrase: [
    "The passphrase, code or passkey was not accepted. Please try again.",
    "La phrase de passe, le code ou la clé d'accès ne convient pas. Veuillez réessayer.",
  ],
  store_damaged: [
    "The data on this device is damaged. It must be deleted here before it can be loaded again.",
    "Les données de cet appareil sont endommagées. Elles doivent être supprimées ici avant d'être chargées à nouveau.",
  ],
  no_store: NOT_HERE,
  store_in_use: ELSEWHERE,
  deposed: ELSEWHERE,
  store_too_new: VERSIONS,
  schema_mismatch: VERSIONS,
  insecure_context: [
    "This page was not opened over a secure connection. Use an address that begins with https.",
    "Cette page n'a pas été ouverte par une connexion sécurisée. Utilisez une adresse qui commence par https.",
  ],
  storage_full: [
    "This device has no room left. Free some space, then try again.",
    "Il n'y a plus de place sur cet appareil. Libérez de l'espace, puis réessayez.",
  ],
  storage_failed: STORAGE,
  storage_closed: STORAGE,
  record_damaged: DAMAGED,
  local_data_lost: [
    "Some data of this device may be lost. Please check your latest changes.",
    "Des données de cet appareil sont peut-être perdues. Veuillez vérifier vos dernières modifications.",
  ],
  not_saved: [
    "This device has changes that are nowhere else. Wait until they are sent, or agree to delete them.",
    "Cet appareil a des modifications qui ne sont nulle part ailleurs. Attendez leur envoi, ou acceptez leur suppression.",
  ],
  closed: [
    "The data was closed or locked. Please open it again.",
    "Les données ont été fermées ou verrouillées. Veuillez les ouvrir à nouveau.",
  ],
  not_loaded: NOT_HERE,
  out_of_scope: MISTAKE,
  wasm_forbidden: [
    "The security settings of this page or browser stop the application. Another browser may help.",
    "Les réglages de sécurité de cette page ou du navigateur bloquent l'application. Un autre navigateur pourrait convenir.",
  ],
  wasm_failed: [
    "A part of the application could not be loaded. Check your connection, then reload the page.",
    "Une partie de l'application n'a pas pu être chargée. Vérifiez votre connexion, puis rechargez la page.",
  ],
  worker_failed: [
    "The application could not be kept for use without a connection. Open it again later with a connection.",
    "L'application n'a pas pu être conservée pour un usage sans connexion. Rouvrez-la plus tard avec une connexion.",
  ],
  panicked: MISTAKE,
  internal: MISTAKE,
};
