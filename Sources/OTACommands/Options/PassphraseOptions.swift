import ArgumentParser

struct PassphraseOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Read the private key's passphrase from this file descriptor.", valueName: "n"))
    var passphraseFd: Int32?

    @Option(help: ArgumentHelp("Take the private key's passphrase from this environment variable.", valueName: "name"))
    var passphraseEnv: String?

    func validate() throws {
        if passphraseFd != nil, passphraseEnv != nil {
            throw ValidationError("'--passphrase-fd' and '--passphrase-env' exclude each other.")
        }
    }

    var isGiven: Bool { passphraseFd != nil || passphraseEnv != nil }

    var source: PassphraseSource {
        if let passphraseFd { return .descriptor(passphraseFd) }
        if let passphraseEnv { return .environment(passphraseEnv) }
        return .terminal
    }
}
