import ArgumentParser
import Glibc
import OTAClient
import OTAFirmware
package import OTASigning
package import SystemPackage

/// The option that selects the trusted keys.
///
/// otaflash never uses a folder in the current directory automatically. The current directory can be an unpacked archive from another
/// person, and this archive could contain trusted keys of that person.
package struct TrustOptions: ParsableArguments {
    package init() {}

    @Option(
        help: ArgumentHelp(
            "A trusted public key, or a folder of *.pub.pem; repeatable. Default: the trust folder.",
            discussion:
                "The default is the paths in $OTAFLASH_TRUST, separated by ':'; if $OTAFLASH_TRUST is not set, the folder "
                + "~/.config/otaflash/trust. A key is trusted for all bundles and MCUboot images, unless a text file "
                + "KEY.pub.pem.scope is next to KEY.pub.pem. The lines of that file limit the key: 'product = NAME, NAME' (only "
                + "bundles of these products), 'format = bundle' or 'format = mcuboot' (only this format), 'with = KEYID' (only "
                + "together with this other key of a pair). Each kind of line occurs at most once. A text file \(FolderPolicy.name) "
                + "in the folder applies to all updates: 'signatures = N' (N people must have signed), 'downgrade = refuse'.",
            valueName: "path"),
        completion: .file())
    var trust: [String] = []

    /// The help of `--allow-demo-key`.
    static let demoKeyHelp = "Accept a file that only the public demo key has signed."
    static let demoKeyManual =
        "--trust must contain the demo key. The private demo key is published, so anyone can sign with it. Default: refuse such a file."

    /// The help of `--signatures`.
    static let signaturesHelp = "The number of trusted keys that must have signed, 1 to 4; default: 1."
    static let signaturesManual =
        "The keys of each algorithm are counted, and the largest number counts: a pair is one signer. A file \(FolderPolicy.name) "
        + "in the folder of the trusted keys can require more."

    /// The values of `--trust`. Hints repeat them in the command line that they show.
    package var given: [String] { trust }

    /// The hints that show how to add a trusted key to the default folder. The shell commands in the hints set the permissions explicitly.
    /// If they did not, a umask such as 002 would allow the group to write to the folder and the key. otaflash would then refuse the key.
    static var folderHints: [String] {
        guard Environment.hasHome else {
            return [
                "or trust it in all commands of this user: set OTAFLASH_TRUST to a folder with the key, such as /etc/otaflash/trust"
            ]
        }
        return [
            "or trust it in all commands: create the trust folder: (umask 022; mkdir -p \(quotedFolder))",
            "then add the signer's public key: install -m 644 KEY.pub.pem \(quotedFolder)/",
        ]
    }

    private static var quotedFolder: String { Shell.quoted((defaultFolder ?? "~/.config/otaflash/trust").string) }

    package func validate() throws {
        guard !trust.contains(StandardFile.name) else {
            throw ValidationError("A trusted key cannot come from standard input; give a file: --trust KEY.pub.pem")
        }
    }

    /// The paths of the trusted keys: the values of `--trust`, or the usual paths if the option was not given.
    var paths: [FilePath] { trust.isEmpty ? Self.usualPaths : trust.map { FilePath($0) } }

    /// The paths in `$OTAFLASH_TRUST`. If this variable is not set, the only path is the default folder.
    static var usualPaths: [FilePath] {
        if let list = Environment.value("OTAFLASH_TRUST") {
            return list.split(separator: ":").map { FilePath(String($0)) }
        }
        return defaultFolder.map { [$0] } ?? []
    }

    /// Loads the trusted keys.
    ///
    /// - Parameter mayBeEmpty: true for a command that also works without trusted keys. The store then has only the policies.
    /// - Throws: `KeyError`: `noTrustedKey` if no key is trusted; `relativeTrustPath` for a relative path in `$OTAFLASH_TRUST`; the errors
    ///   of ``TrustStore``.
    package func store(_ console: Console, mayBeEmpty: Bool = false) throws(KeyError) -> TrustStore {
        if !isDefault, trust.isEmpty, let relative = paths.first(where: { !$0.isAbsolute }) {
            // A relative path depends on the current directory, which can contain files of an untrusted archive.
            throw KeyError(
                .relativeTrustPath, "OTAFLASH_TRUST names '\(relative)', which is not an absolute path",
                hint: Shell.export("OTAFLASH_TRUST", paths))
        }
        do throws(KeyError) {
            return try Self.store(at: paths, filesAreChosen: !trust.isEmpty, mayBeEmpty: mayBeEmpty, console)
        } catch {
            // The user did not give the path of the default folder. So a missing default folder is not a wrong path: it means that no key
            // is trusted yet. The error can also be about a link to a missing file in the folder.
            let folder = paths.first?.string ?? ""
            var status = stat()
            guard error.code == .noSuchFile, isDefault, lstat(folder, &status) != 0 else { throw error }
            if mayBeEmpty { return try TrustStore([]) }
            throw KeyError(.noTrustedKey, "no key is trusted on this machine: \(folder) does not exist")
        }
    }

    /// Loads the trusted keys at the given paths. Warns about each file in a folder that cannot be used, and about a sample key of MCUboot,
    /// because its private key is public.
    ///
    /// - Parameter filesAreChosen: true if the user named the paths in the current command.
    /// - Throws: `KeyError`.
    package static func store(
        at paths: [FilePath], filesAreChosen: Bool, mayBeEmpty: Bool = false, _ console: Console
    ) throws(KeyError) -> TrustStore {
        let store = try TrustStore(paths: paths, filesAreChosen: filesAreChosen, mayBeEmpty: mayBeEmpty)
        for error in store.unusable {
            let failure = Failure(error, in: Invocation(command: ""))
            console.warn("a key is not trusted: \(failure.message)", hint: failure.hint)
        }
        let ids = store.imageKeys.map(\.id.description).joined(separator: ", ")
        for key in store.imageKeys where MCUbootSampleKey.contains(key.id) {
            console.warn(
                "the trusted key \(key.id) is a sample key of MCUboot: its private key is public, so everybody can sign with it",
                hint: "remove it from the trusted keys, unless the device is only for tests")
        }
        console.debug("trusted: \(ids); from \(paths.map(\.string).joined(separator: ", "))")
        return store
    }

    private var isDefault: Bool { trust.isEmpty && Environment.value("OTAFLASH_TRUST") == nil }

    private static var defaultFolder: FilePath? { Environment.configurationFolder?.appending("trust") }
}
