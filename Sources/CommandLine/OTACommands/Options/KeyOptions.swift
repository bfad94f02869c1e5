import ArgumentParser
package import OTASigning

/// The options for one private key that signs records of a fleet, and for the secret that the key needs.
package struct KeyOptions: ParsableArguments {
    /// The forms of a private key, for the help of an option. The manual of `sign --key` explains them.
    package static let forms = "FILE, env:NAME, pkcs11:URI, exec:PROGRAM or agent:ID"
    package static let formsManual = "otaflash-sign(1) explains the forms of a key."

    @Option(
        help: ArgumentHelp(
            "The operator's private key: \(forms). Required.", discussion: formsManual, valueName: "key"),
        completion: .file())
    var key: String

    @OptionGroup var secrets: KeySecretOptions

    package init() {}

    /// Reads the key, or finds it in its token, program or agent.
    ///
    /// - Throws: `KeyError`, `Failure`.
    package func signer(_ console: Console) throws -> any Signer { try secrets.signer(key, console) }
}

/// The options for the secret that a private key needs.
package struct KeySecretOptions: ParsableArguments {
    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var pin: PINOptions

    package init() {}

    /// Reads a private key, or finds it in its token, program or agent.
    ///
    /// - Parameter key: the value of `--key`.
    /// - Throws: `KeyError`, `Failure`.
    package func signer(_ key: String, _ console: Console) throws -> any Signer {
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        return try keys.key(at: key)
    }
}
