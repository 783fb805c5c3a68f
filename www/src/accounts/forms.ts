/** The three forms that lead into an account: sign-in, sign-up, and recovery by the code. */

import { accounts } from "escale/accounts";
import { EntryForm, type FormName, type FormOptions } from "./entry-form";
import { linkButton, missing, secretField, textField, tooShort, type Mistake } from "./fields";
import { placeOf } from "./session";

/** Makes a form by its name. `shown` gets the recovery code of a new account, and resolves once the visitor keeps it. */
export function makeForm(name: FormName, options: FormOptions, shown: (code: string) => Promise<void>): EntryForm {
  if (name === "sign-up") return new SignUpForm(options, shown);
  return name === "recover" ? new RecoverForm(options) : new SignInForm(options);
}

class SignInForm extends EntryForm {
  private readonly secret = secretField({ id: "passphrase", label: "Passphrase", autocomplete: "current-password" });

  constructor(options: FormOptions) {
    super(options, {
      where: "sign-in",
      title: "Open your account",
      lead: "A device that knows it opens it with no network, too.",
      submit: "Sign in",
      busy: "Signing in",
      working: "Deriving the key from your passphrase, on this device only.",
    });
    this.build([this.secret.element], [linkButton("Forgot the passphrase?", "go-recover", () => options.go("recover"))]);
  }

  protected get passphrase(): string {
    return this.secret.input.value;
  }

  protected mistake(): Mistake | undefined {
    return missing(this.secret, "Type your passphrase.");
  }

  protected async send(): Promise<void> {
    await this.options.enter(this.passphrase);
  }
}

class SignUpForm extends EntryForm {
  private readonly secret = secretField({
    id: "passphrase",
    label: "Passphrase",
    autocomplete: "new-password",
    hint: "Several words that only you would put together. Nobody can look it up for you.",
  });
  private readonly invitation = textField({
    id: "invitation",
    label: "Invitation, if the org requires one",
    placeholder: "None",
    isCode: true,
  });

  constructor(
    options: FormOptions,
    private readonly shown: (code: string) => Promise<void>,
  ) {
    super(options, {
      where: "sign-up",
      title: "Make an account",
      lead: "Choose a login and a passphrase. You then get a recovery code, once.",
      submit: "Make the account",
      busy: "Making the account",
      working: "Making your key on this device. The server never sees it, nor your passphrase.",
    });
    this.build([this.secret.element], [linkButton("I have an account", "have-account", () => options.go("sign-in"))], [this.invitation]);
  }

  protected get passphrase(): string {
    return this.secret.input.value;
  }

  protected mistake(): Mistake | undefined {
    return tooShort(this.secret);
  }

  protected async send(): Promise<void> {
    const { draft } = this.options;
    const { passphrase } = this;
    const invitation = this.invitation.input.value.trim();
    const made = await accounts.signUp({ ...placeOf(draft), passphrase, recoveryCode: true, ...(invitation !== "" && { invitation }) });
    if (made.code !== undefined) await this.shown(made.code);
    await this.options.enter(passphrase);
  }
}

class RecoverForm extends EntryForm {
  private readonly code = textField({
    id: "code",
    label: "Recovery code",
    placeholder: "7K2M-0QVD-...",
    hint: "The 32 letters and digits that you kept. Case and dashes do not matter.",
    isCode: true,
  });
  private readonly next = secretField({ id: "passphrase-next", label: "New passphrase", autocomplete: "new-password" });

  constructor(options: FormOptions) {
    super(options, {
      where: "recover",
      title: "Recover the account",
      lead: "The recovery code lets you set a new passphrase. Your other devices then ask for it.",
      submit: "Set the new passphrase",
      busy: "Recovering",
      working: "Opening the account's key by the code, and wrapping it under the new passphrase.",
    });
    this.build([this.code.element, this.next.element], [linkButton("Back to sign-in", "go-sign-in", () => options.go("sign-in"))]);
  }

  protected get passphrase(): string {
    return this.next.input.value;
  }

  protected mistake(): Mistake | undefined {
    return missing(this.code, "Type your recovery code.") ?? tooShort(this.next);
  }

  protected async send(): Promise<void> {
    const { draft } = this.options;
    await accounts.recover({ ...placeOf(draft), code: this.code.input.value, passphrase: this.passphrase });
    await this.options.enter(this.passphrase);
  }
}
