public import OTAFirmware
public import OTASigning

/// The record of a published bundle. An operator signs the record.
public struct FleetRelease: SignedPayload {
    public enum State: String, Sendable, CaseIterable {
        case published, withdrawn
    }

    public static let kind = SignedRecord.Kind.release
    /// The next step if a bundle does not have enough signatures. The name of a release does not depend on its signatures, so the same
    /// release cannot be published again with more of them.
    package static let signaturesAdvice =
        "sign the image again as a new release, with enough keys, and publish it: otaflash sign IMAGE --key A.pem --key B.pem"

    /// The first 8 bytes of `manifestDigest`.
    public var id: ReleaseID { ReleaseID(manifest: manifestDigest) }
    /// The number of this version of the record, from 1.
    public private(set) var serial: Int
    public private(set) var state: State
    public let product: ProductName
    public let version: SemanticVersion
    public let securityCounter: UInt32
    public let manifestDigest: SHA256Digest
    /// The SHA-256 of the bundle file. In the store, the bundle is the object with this digest.
    public let bundleDigest: SHA256Digest
    /// The size of the bundle file, in bytes.
    public let size: Int

    /// All JSON members of the record, including members that this otaflash does not know. The next version of the record keeps all
    /// members.
    private var fields: RecordFields

    public var scopeProduct: ProductName? { product }

    private static let what = "the release"

    /// Creates the first version of the record of a bundle. Before this call, a `Verifier` with the operator's own trusted keys must have
    /// accepted the bundle.
    public init(of bundle: VerifiedBundle) {
        serial = 1
        state = .published
        product = bundle.manifest.product
        version = bundle.manifest.version
        securityCounter = bundle.manifest.securityCounter
        manifestDigest = bundle.manifestDigest
        bundleDigest = bundle.bundle.fileDigest
        size = bundle.envelope.bytes.count + bundle.image.count
        fields = RecordFields(new: Self.what)
        fields.set("release", id)
        fields.set("serial", serial)
        fields.set("state", state.rawValue)
        fields.set("product", product.text)
        fields.set("version", version.text)
        fields.set("counter", Int(securityCounter))
        fields.set("manifest_sha256", manifestDigest.description)
        fields.set("bundle_sha256", bundleDigest.description)
        fields.set("size", size)
    }

    /// Returns the next version of the record, in the state `withdrawn`. A gateway that has this version starts no push of the release,
    /// except to confirm an image on trial.
    func withdrawn() -> FleetRelease {
        var next = self
        next.serial += 1
        next.state = .withdrawn
        next.fields.set("serial", next.serial)
        next.fields.set("state", next.state.rawValue)
        return next
    }

    /// - Throws: `record-malformed`, `too-new`.
    public init(payload: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: payload, Self.what)
        self.fields = fields
        serial = try fields.serial()
        state = try fields.required("state", fields.value("state") { State(rawValue: $0) })
        product = try fields.required("product", fields.value("product") { ProductName($0) })
        version = try fields.required("version", fields.value("version") { SemanticVersion($0) })
        guard let counter = UInt32(exactly: try fields.required("counter", fields.integer("counter"))) else {
            throw fields.wrong("counter", "below 2^32")
        }
        securityCounter = counter
        manifestDigest = try fields.digest("manifest_sha256")
        bundleDigest = try fields.digest("bundle_sha256")
        size = try fields.required("size", fields.integer("size"))
        guard try fields.value("release", { ReleaseID($0) }) == id else {
            throw .malformed("'release' of \(Self.what) is not the start of 'manifest_sha256'")
        }
    }

    public func payload() throws(FleetError) -> [UInt8] { try fields.encoded() }

    /// Checks that a verified bundle is the bundle of this release. A gateway calls this method before it uses the bundle for a push.
    ///
    /// The digest of the manifest already determines some of the compared values. These values are also compared, because the operator saw
    /// and signed them in the record. If they differ from the manifest, the record is wrong.
    ///
    /// - Throws: `bad-release`.
    public func check(_ bundle: VerifiedBundle) throws(FleetError) {
        func check<Value: Equatable>(_ what: String, _ expected: Value, _ found: Value) throws(FleetError) {
            guard expected == found else {
                throw FleetError(
                    .badRelease, "the \(what) of the bundle is \(found); the release \(id) has \(expected)",
                    hint: "otaflash release publish FILE.otaf")
            }
        }
        try check("manifest's SHA-256", manifestDigest, bundle.manifestDigest)
        try check("file's SHA-256", bundleDigest, bundle.bundle.fileDigest)
        try check("product", product, bundle.manifest.product)
        try check("version", version, bundle.manifest.version)
        try check("security counter", securityCounter, bundle.manifest.securityCounter)
    }
}

extension RecordFields {
    func digest(_ name: String) throws(FleetError) -> SHA256Digest {
        try required(
            name,
            value(name) { text in
                Hex.decode(text).flatMap { Hex.encode($0) == text ? SHA256Digest(bytes: $0) : nil }
            })
    }

    /// Returns a required number from 1 to 2^53 − 1, such as the serial number of a signed record.
    ///
    /// - Throws: `record-malformed` if the member is missing or out of this range.
    func serial(_ name: String = "serial") throws(FleetError) -> Int {
        let serial = try required(name, integer(name))
        guard (1..<1 << 53).contains(serial) else { throw wrong(name, "1 or more, and below 2^53") }
        return serial
    }
}
