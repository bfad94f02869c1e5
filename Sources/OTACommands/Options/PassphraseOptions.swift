import ArgumentParser

/// The source of a private key's passphrase; default: the terminal.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Read the key's passphrase from this file descriptor; default: ask on the terminal.", valueName: "n"))
    var passphraseFd: Int32?

    @Option(help: ArgumentHelp("Read the key's passphrase from this environment variable.", valueName: "name"))
    var passphraseEnv: String?

    func validate() throws {
        if passphraseFd != nil, passphraseEnv != nil {
            throw ValidationError("'--passphrase-fd' and '--passphrase-env' cannot be used together.")
        }
    }

    var isGiven: Bool { passphraseFd != nil || passphraseEnv != nil }

    var source: PassphraseSource {
        if let passphraseFd { return .descriptor(passphraseFd) }
        if let passphraseEnv { return .environment(passphraseEnv) }
        return .terminal
    }
}
