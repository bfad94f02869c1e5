import ArgumentParser
import OTAClient
import OTACommands
import OTAFleet
import OTASigning
import SystemPackage

/// The option that selects the public keys of the operators, for a command that does not sign as an operator.
struct OperatorOptions: ParsableArguments {
    @Option(
        help: OperatorFiles.help(withoutFolder: "If this folder does not exist, --operators is required."),
        completion: .file())
    var operators: [String] = []

    /// Loads the keys.
    ///
    /// - Throws: `KeyError`.
    func keys(_ console: Console) throws -> OperatorKeys {
        guard let store = try OperatorFiles.store(operators, console) else {
            throw KeyError(
                .noTrustedKey, "no operator is trusted on this machine",
                hint: "give the public keys of the operators: --operators KEY.pub.pem")
        }
        return OperatorKeys(store)
    }
}

/// The same for a command that also works without the keys, with less in its result.
struct OptionalOperatorOptions: ParsableArguments {
    @Option(
        help: OperatorFiles.help(
            withoutFolder: "If this folder does not exist, the list does not show why a device gets no update."),
        completion: .file())
    var operators: [String] = []

    /// Loads the keys; nil without keys.
    ///
    /// - Throws: `KeyError`.
    func keys(_ console: Console) throws -> OperatorKeys? {
        try OperatorFiles.store(operators, console).map { OperatorKeys($0) }
    }
}

/// The options of a command that signs as an operator: the private key, and the public keys of the operators.
struct SigningOptions: ParsableArguments {
    @OptionGroup var signing: KeyOptions

    @Option(
        help: OperatorFiles.help(
            withoutFolder: "If this folder does not exist, only the key of --key is accepted. The key of --key must be "
                + "one of the operators' keys."),
        completion: .file())
    var operators: [String] = []

    /// Loads the keys.
    ///
    /// - Returns: the signer of `--key`, and the keys of the operators. Without other keys, the signer is the only operator.
    /// - Throws: `KeyError`, `Failure`.
    func keys(_ console: Console) throws -> (signer: any Signer, operators: OperatorKeys) {
        let (signer, operators, _) = try allKeys(console)
        return (signer, operators)
    }

    /// The same, and whether the signer is the only known operator, because neither `--operators` nor the default folder exists.
    func allKeys(_ console: Console) throws -> (signer: any Signer, operators: OperatorKeys, isAlone: Bool) {
        let signer = try signing.signer(console)
        let store = try OperatorFiles.store(operators, console)
        return (signer, OperatorKeys(try store ?? TrustStore([signer.publicKey])), store == nil)
    }
}

/// The files with the public keys of the operators.
private enum OperatorFiles {
    /// Returns the help of `--operators`.
    ///
    /// - Parameter withoutFolder: the sentences about a default folder that does not exist.
    static func help(withoutFolder: String) -> ArgumentHelp {
        ArgumentHelp(
            "Accept only records that one of these keys has signed: a key, or a folder of *.pub.pem; repeatable.",
            discussion:
                "The records are releases and rollouts, and the keys are those of the operators. Default: the folder "
                + "~/.config/otaflash/operators. \(withoutFolder)",
            valueName: "path")
    }

    /// Loads the keys of `--operators`, or of the default folder if the option was not given.
    ///
    /// - Returns: nil if the option was not given, and the folder does not exist.
    /// - Throws: `KeyError`.
    static func store(_ paths: [String], _ console: Console) throws(KeyError) -> TrustStore? {
        if !paths.isEmpty {
            return try TrustOptions.store(at: paths.map { FilePath($0) }, filesAreChosen: true, console)
        }
        guard let folder = Environment.configurationFolder?.appending("operators") else { return nil }
        do throws(KeyError) {
            return try TrustOptions.store(at: [folder], filesAreChosen: false, console)
        } catch {
            guard error.code == .noSuchFile else { throw error }
            return nil
        }
    }
}
