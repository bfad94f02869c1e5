import ArgumentParser
import OTAClient
import OTACommands
import OTAFleet
import OTASigning
import SystemPackage

/// The option that selects the public keys of the operators.
struct OperatorOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Accept only releases and rollouts that one of these operators has signed: a public key, or a folder with public keys "
                + "(*.pub.pem); repeatable. Default: the folder ~/.config/otaflash/operators. Without this folder, a command with --key "
                + "accepts only its own key, and other commands fail.",
            valueName: "path"),
        completion: .file())
    var operators: [String] = []

    /// Loads the keys.
    ///
    /// - Parameter signer: the operator's own key, which is trusted if no other key is given; nil: the command signs nothing.
    /// - Throws: `KeyError`.
    func keys(_ console: Console, signer: (any Signer)? = nil) throws -> OperatorKeys {
        if !operators.isEmpty {
            return OperatorKeys(
                try TrustOptions.store(at: operators.map { FilePath($0) }, filesAreChosen: true, console))
        }
        if let folder = Environment.configurationFolder?.appending("operators") {
            do throws(KeyError) {
                return OperatorKeys(try TrustOptions.store(at: [folder], filesAreChosen: false, console))
            } catch {
                guard error.code == .noSuchFile else { throw error }
            }
        }
        guard let signer else {
            throw KeyError(
                .noTrustedKey, "no operator is trusted on this machine",
                hint: "give the public keys of the operators: --operators KEY.pub.pem")
        }
        return OperatorKeys(try TrustStore([signer.publicKey]))
    }
}
