public import OTAFirmware

/// An error of ``BundleSigner`` or ``MCUbootSigner``. Two errors are equal if their codes are equal.
public enum SigningError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        // The next errors concern the input file.
        case noSuchFile = "no-such-file"
        case notAFile = "not-a-file"
        case readFailed = "read-failed"
        case emptyImage = "empty-image"
        case imageTooLarge = "image-too-large"
        /// The input file changed while the signer read it.
        case imageChanged = "image-changed"
        // The next errors concern the values for the manifest (`Release`).
        case productRequired = "product-required"
        case versionRequired = "version-required"
        case productMismatch = "product-mismatch"
        case versionMismatch = "version-mismatch"
        // The next errors concern an input that is a bundle, or a manifest that another machine has signed.
        case alreadyABundle = "already-a-bundle"
        case malformedBundle = "malformed-bundle"
        case digestMismatch = "digest-mismatch"
        case unknownCriticalField = "unknown-critical-field"
        // The next errors concern MCUboot images.
        case alreadyAnImage = "already-an-image"
        /// The binary does not begin with enough zero bytes for the header, so the header would overwrite code.
        case headerNotEmpty = "header-not-empty"
        case slotTooSmall = "slot-too-small"
        // The next errors concern keys.
        case keyRequired = "key-required"
        case alreadySigned = "already-signed"
        case tooManySignatures = "too-many-signatures"
        // The next errors concern the output file.
        case outputExists = "output-exists"
        /// Another program created, changed or removed the output file while this command ran.
        case outputChanged = "output-changed"
        case cannotCreate = "cannot-create"
        case writeFailed = "write-failed"
    }

    /// The signer refused the input, the values of the ``Release``, the keys or the output. `context` describes the problem for the user,
    /// without a full stop at the end. `hint` is the recommended next step. `hint` is nil if there is no recommendation.
    case refused(Code, context: String, hint: String? = nil)
    case image(ImageError)
    case hex(HexError)
    /// The values of the ``Release`` are not valid in a manifest, or the input file is not a valid bundle.
    case bundle(BundleError)
    case key(KeyError)

    /// The code of the error, for scripts. The codes do not change between releases.
    public var code: String {
        switch self {
        case .refused(let code, _, _): code.rawValue
        case .image(let error): error.code.rawValue
        case .hex(let error): error.code.rawValue
        case .bundle(let error): error.code.rawValue
        case .key(let error): error.code.rawValue
        }
    }

    public var context: String {
        switch self {
        case .refused(_, let context, _): context
        case .image(let error): error.description
        case .hex(let error): error.description
        case .bundle(let error): error.description
        case .key(let error): error.context
        }
    }

    public var hint: String? {
        switch self {
        case .refused(_, _, let hint): hint
        case .image(let error): error.hint
        case .hex(let error): error.hint
        case .bundle: nil
        case .key(let error): error.hint
        }
    }

    public static func == (left: SigningError, right: SigningError) -> Bool { left.code == right.code }
}

// The next two functions convert the errors of the module OTAFirmware to `SigningError`.

func imageChecked<Result>(_ body: () throws(ImageError) -> Result) throws(SigningError) -> Result {
    do { return try body() } catch { throw .image(error) }
}

func bundleChecked<Result>(_ body: () throws(BundleError) -> Result) throws(SigningError) -> Result {
    do { return try body() } catch { throw .bundle(error) }
}
