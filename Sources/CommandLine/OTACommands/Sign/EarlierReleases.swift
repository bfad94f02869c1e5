import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage

/// The releases before the one that `sign` signs: the bundle of `--previous`, and the bundle that the output replaces.
struct EarlierReleases {
    /// The bundle of `--previous`; nil without this option.
    let previous: SignedBundle?
    /// The bundle that is at the output path; nil: no bundle.
    private let replaced: (path: String, manifest: Manifest)?

    /// - Parameter output: the path of the new bundle; nil if the command writes no bundle.
    /// - Throws: `Failure` with the code `usage` if the file of `--previous` is not a bundle; the errors of `FileReader` and `SignedBundle`.
    init(previous path: String?, output: String? = nil) throws {
        previous = try path.map { path in
            guard let signed = try Verify.bundle(in: path) else {
                throw Failure.usage(
                    "--previous is for a bundle, and \(StandardFile.title(of: path)) is not a bundle",
                    hint: "give the bundle of the previous release")
            }
            return signed
        }
        replaced = output.flatMap { path in Self.manifest(ofBundleAt: path).map { (path, $0) } }
    }

    /// Returns the manifest of a bundle; nil if the file does not exist, or if it is not a bundle.
    static func manifest(ofBundleAt path: String) -> Manifest? {
        guard path != StandardFile.name, let prefix = try? InputFile(FilePath(path)).prefix(Envelope.maximumLength)
        else { return nil }
        return (try? Envelope(parsingPrefix: prefix))?.manifest
    }

    /// The security counter of the bundle of `--previous`, or of the replaced bundle; nil without both.
    var counter: UInt32? { (previous?.envelope.manifest ?? replaced?.manifest)?.securityCounter }

    /// Checks that devices with an earlier release can install the new one.
    ///
    /// A replaced bundle can have the same version, because a build can be signed again. Its product can be another one.
    ///
    /// - Parameter choosesCounter: whether the command accepts `--counter`.
    /// - Throws: `VerificationError` for the bundle of `--previous`; `output-exists` if the replaced bundle has a higher version or a higher
    ///   security counter.
    func check(_ new: Manifest, choosesCounter: Bool = false) throws {
        if let previous { try new.check(after: previous.envelope.manifest) }
        guard let (path, old) = replaced, new.product == old.product else { return }
        let isOlder = old.version.takesPrecedence(over: new.version)
        guard isOlder || new.securityCounter < old.securityCounter else { return }
        let counter = isOlder || !choosesCounter ? "" : ", or give --counter \(old.securityCounter)"
        throw Failure(
            "output-exists", .cannotCreate,
            "\(path) has the version \(old.version) and the security counter \(old.securityCounter), and the "
                + "new bundle would have the version \(new.version) and the security counter \(new.securityCounter)",
            hint: "use another name for the output (-o FILE)\(counter); or remove the file: rm \(Shell.quoted(path))")
    }
}
