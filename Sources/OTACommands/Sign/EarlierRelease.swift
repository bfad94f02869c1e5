import OTAClient
import OTAFirmware
import OTASigning
import SystemPackage

/// The release before the one that `sign` signs: the bundle of `--previous`, or a bundle that the output replaces.
struct EarlierRelease {
    let manifest: Manifest
    /// The bundle of `--previous`; nil for a bundle that the output replaces.
    private let signed: SignedBundle?
    /// The path of the bundle that the output replaces; nil for the bundle of `--previous`.
    private let replaced: String?

    /// Reads the bundle of `--previous`.
    ///
    /// - Throws: `Failure` with the code `usage` if the file is not a bundle; the errors of `FileReader` and `SignedBundle`.
    init(previous path: String) throws {
        guard case .bundle(let signed) = try UpdateFile(parsing: FileReader.contents(of: path)) else {
            throw Failure.usage(
                "--previous is for a bundle, and \(StandardFile.title(of: path)) is not a bundle",
                hint: "give the bundle of the previous release")
        }
        (manifest, self.signed, replaced) = (signed.envelope.manifest, signed, nil)
    }

    /// Reads the bundle that the output replaces. Returns nil if there is no such file, or if it is not a bundle.
    init?(replacedAt path: String) {
        guard path != StandardFile.name, let prefix = try? InputFile(FilePath(path)).prefix(Envelope.maximumLength),
            let envelope = try? Envelope(parsingPrefix: prefix)
        else { return nil }
        (manifest, signed, replaced) = (envelope.manifest, nil, path)
    }

    /// Checks that one of the keys has signed the bundle of `--previous`, before its counter is taken: a forged bundle could have the highest
    /// counter, and a device that confirms this counter refuses all later releases.
    func checkSigned(by keys: [any Signer]) throws {
        guard let signed else { return }
        do { _ = try Verifier(trust: TrustStore(keys.map(\.publicKey))).verify(signed) } catch {
            throw Failure.usage(
                "no key of --key has signed the bundle of --previous, so its security counter is not taken",
                hint: "verify the bundle (otaflash verify --help), and give its counter: --counter N")
        }
    }

    /// Checks that devices with this release can install the new one.
    ///
    /// A replaced bundle can have the same version, because a build can be signed again. Its product can be another one.
    ///
    /// - Parameter choosesCounter: whether the command accepts `--counter`.
    /// - Throws: `VerificationError` for the bundle of `--previous`; `output-exists` if the replaced bundle has a higher version or a higher
    ///   security counter.
    func check(_ new: Manifest, choosesCounter: Bool = false) throws {
        guard let replaced else { return try new.check(after: manifest) }
        guard new.product == manifest.product else { return }
        let isOlder = manifest.version.takesPrecedence(over: new.version)
        guard isOlder || new.securityCounter < manifest.securityCounter else { return }
        let counter = isOlder || !choosesCounter ? "" : ", or give --counter \(manifest.securityCounter)"
        throw Failure(
            "output-exists", .cannotCreate,
            "\(replaced) has the version \(manifest.version) and the security counter \(manifest.securityCounter), and the "
                + "new bundle would have the version \(new.version) and the security counter \(new.securityCounter)",
            hint:
                "use another name for the output (-o FILE)\(counter); or remove the file: rm \(Shell.quoted(replaced))")
    }
}
