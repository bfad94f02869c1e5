public import OTAFirmware

/// Why no bundle or image was made. Equal where the codes are.
public enum SigningError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        // The file to sign.
        case noSuchFile = "no-such-file"
        case notAFile = "not-a-file"
        case readFailed = "read-failed"
        case emptyImage = "empty-image"
        case imageTooLarge = "image-too-large"
        /// It is being written to at the same time.
        case imageChanged = "image-changed"
        // What the release is said to be.
        case productRequired = "product-required"
        case versionRequired = "version-required"
        case productMismatch = "product-mismatch"
        case versionMismatch = "version-mismatch"
        // A bundle that gets a signature more.
        case alreadyABundle = "already-a-bundle"
        case malformedBundle = "malformed-bundle"
        case digestMismatch = "digest-mismatch"
        case unknownCriticalField = "unknown-critical-field"
        // An MCUboot image.
        case alreadyAnImage = "already-an-image"
        /// There is no room for the header.
        case headerNotEmpty = "header-not-empty"
        case slotTooSmall = "slot-too-small"
        // The keys.
        case keyRequired = "key-required"
        case alreadySigned = "already-signed"
        case tooManySignatures = "too-many-signatures"
        // The bundle's file.
        case outputExists = "output-exists"
        case cannotCreate = "cannot-create"
        case writeFailed = "write-failed"
    }

    /// Context and hint are for people: what was seen, without a full stop, and what to do next.
    case refused(Code, context: String, hint: String? = nil)
    case image(ImageError)
    case intelHex(IntelHexError)
    /// What was asked for fits no manifest, or the file is no bundle.
    case bundle(BundleError)
    case key(KeyError)

    /// Stable: what a script compares.
    public var code: String {
        switch self {
        case .refused(let code, _, _): code.rawValue
        case .image(let error): error.code.rawValue
        case .intelHex(let error): error.code.rawValue
        case .bundle(let error): error.code.rawValue
        case .key(let error): error.code.rawValue
        }
    }

    public var context: String {
        switch self {
        case .refused(_, let context, _): context
        case .image(let error): error.description
        case .intelHex(let error): error.description
        case .bundle(let error): error.description
        case .key(let error): error.context
        }
    }

    public var hint: String? {
        switch self {
        case .refused(_, _, let hint): hint
        case .image(let error): error.hint
        case .intelHex(let error): error.hint
        case .bundle: nil
        case .key(let error): error.hint
        }
    }

    public static func == (left: SigningError, right: SigningError) -> Bool { left.code == right.code }
}

// What the modules below throw, as one of these.

func imageChecked<Result>(_ body: () throws(ImageError) -> Result) throws(SigningError) -> Result {
    do { return try body() } catch { throw .image(error) }
}

func bundleChecked<Result>(_ body: () throws(BundleError) -> Result) throws(SigningError) -> Result {
    do { return try body() } catch { throw .bundle(error) }
}
