import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// Whose signatures count.
///
/// Never a folder because it lies in the current directory: whoever sends an archive must not choose whom it is verified
/// against.
struct TrustOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "A trusted public key, or a folder of them (*.pub.pem); repeatable. KEY.pub.pem.scope limits a key.",
            discussion: "In place of $OTAFLASH_TRUST (paths with ':' between), else ~/.config/otaflash/trust.",
            valueName: "path"),
        completion: .file())
    var trust: [String] = []

    /// What to type where there is no key yet.
    static var firstHint: String { "trust the key that signs: mkdir -p \(quotedFolder)" }
    static var secondHint: String { "and then: cp KEY.pub.pem \(quotedFolder)/" }

    private static var quotedFolder: String { Shell.quoted((defaultFolder ?? "~/.config/otaflash/trust").string) }

    /// The paths in force.
    var paths: [FilePath] {
        if !trust.isEmpty { return trust.map { FilePath($0) } }
        if let list = Environment.value("OTAFLASH_TRUST") {
            return list.split(separator: ":").map { FilePath(String($0)) }
        }
        return Self.defaultFolder.map { [$0] } ?? []
    }

    /// The keys in force.
    ///
    /// - Throws: `KeyError`.
    func store(_ console: Console) throws(KeyError) -> TrustStore {
        if !isDefault, trust.isEmpty, let relative = paths.first(where: { !$0.isAbsolute }) {
            // It would depend on the current directory, whose files may come from an archive of a stranger.
            throw KeyError(
                .relativeTrustPath, "OTAFLASH_TRUST names '\(relative)', which is not an absolute path",
                hint: Shell.export("OTAFLASH_TRUST", paths))
        }
        do throws(KeyError) {
            let store = try TrustStore(paths: paths, filesAreChosen: !trust.isEmpty)
            let ids = store.keys.map(\.id.description).joined(separator: ", ")
            console.debug("trusted: \(ids); from \(paths.map(\.string).joined(separator: ", "))")
            return store
        } catch {
            // Nobody named this folder: that it is not there means that nobody is trusted yet.
            guard error.code == .noSuchFile, isDefault else { throw error }
            let folder = paths.first?.string ?? ""
            throw KeyError(.noTrustedKey, "no key is trusted on this machine: \(folder) does not exist")
        }
    }

    private var isDefault: Bool { trust.isEmpty && Environment.value("OTAFLASH_TRUST") == nil }

    private static var defaultFolder: FilePath? { Environment.configurationFolder?.appending("trust") }
}
