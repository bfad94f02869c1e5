public import OTAFirmware
public import OTASigning

/// The payload of a signed record: a release, a rollout, the progress of a rollout or the reset of a device.
public protocol SignedPayload: Sendable, Hashable {
    /// The kind of the record. The signature covers the kind, so that a record of one kind is never valid as a record of another kind.
    static var kind: SignedRecord.Kind { get }
    /// The product that the payload is about; nil if it is not about one product.
    var scopeProduct: ProductName? { get }
    /// Parses the payload. The caller has verified the signature before, so that only signed bytes are parsed.
    init(payload: [UInt8]) throws(FleetError)
    func payload() throws(FleetError) -> [UInt8]
}

/// A parsed record whose signatures are not verified yet. ``OperatorKeys`` verifies them.
///
///     {"schema":1,"kind":"rollout","payload":"<Base64 of JSON>","signatures":[{"key_id":"…","signature":"<Base64>"}]}
///
/// Each Ed25519 signature covers three parts: the text `otaflash-KIND-v1`, such as `otaflash-rollout-v1`, a zero byte, and the payload's
/// bytes.
public struct SignedRecord: Sendable, Hashable {
    public enum Kind: String, Sendable, CaseIterable {
        case release, rollout, progress, reset
    }

    public struct Signature: Sendable, Hashable {
        public let keyID: KeyID
        /// The Ed25519 signature, 64 bytes.
        public let bytes: [UInt8]
    }

    /// The maximum number of signatures.
    public static let maximumSignatures = 8

    public let kind: Kind
    /// The bytes of the payload, exactly as they were signed.
    public let payload: [UInt8]
    public let signatures: [Signature]

    private static let what = "the signed record"

    /// Parses a record, but not its payload.
    ///
    /// - Throws: `record-malformed`, `record-too-large`, `too-new`.
    public init(parsing bytes: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: bytes, Self.what)
        kind = try fields.required("kind", fields.value("kind") { Kind(rawValue: $0) })
        payload = try fields.required("payload", fields.value("payload", Self.bytes))
        guard let list = fields.json("signatures")?.array, (1...Self.maximumSignatures).contains(list.count) else {
            throw .malformed("\(Self.what) does not have 1 to \(Self.maximumSignatures) signatures")
        }
        var signatures: [Signature] = []
        for json in list {
            let item = try RecordFields(json, "a signature")
            let keyID = try item.required("key_id", item.value("key_id", Self.keyID))
            let bytes = try item.required("signature", item.value("signature", Self.bytes))
            guard bytes.count == 64 else { throw .malformed("a signature has \(bytes.count) bytes; expected 64") }
            signatures.append(Signature(keyID: keyID, bytes: bytes))
        }
        self.signatures = signatures
    }

    /// Signs a payload.
    ///
    /// - Throws: `record-too-large` if the record would exceed 4096 bytes; `signing-failed` with the error of the signer.
    public init(signing value: some SignedPayload, with signer: any Signer) throws(FleetError) {
        kind = type(of: value).kind
        payload = try value.payload()
        let message = Self.message(kind, payload)
        guard signer.publicKey.algorithm == .ed25519 else {
            throw FleetError(
                .signingFailed, "the key is for \(signer.publicKey.algorithm); a fleet record requires Ed25519",
                hint: "create an Ed25519 key for the fleet: otaflash keygen NAME")
        }
        let signature: [UInt8]
        do throws(KeyError) { signature = try signer.sign(message) } catch {
            throw FleetError(
                .signingFailed, "the key \(signer.publicKey.id) did not sign: \(error.context)", hint: error.hint,
                cause: error)
        }
        // A token or a program outside this process can return a wrong signature.
        guard (try? signer.publicKey.verify(signature: signature, message: message)) == true else {
            throw FleetError(
                .signingFailed, "the signer of the key \(signer.publicKey.id) returned an invalid signature")
        }
        signatures = [Signature(keyID: signer.publicKey.id, bytes: signature)]
        _ = try encoded()
    }

    /// Returns the record as JSON on one line.
    ///
    /// - Throws: `record-too-large`.
    public func encoded() throws(FleetError) -> [UInt8] { try fields.encoded() }

    var fields: RecordFields {
        var fields = RecordFields(new: Self.what)
        fields.set("kind", kind.rawValue)
        fields.set("payload", Self.base64(payload))
        let list = signatures.map { signature in
            JSON.object([
                JSON.Member("key_id", .string(signature.keyID.description)),
                JSON.Member("signature", .string(Self.base64(signature.bytes))),
            ])
        }
        fields.set("signatures", JSON.array(list))
        return fields
    }

    /// Returns the keys of `keys` that signed this record, in the order of `keys`.
    func signers(among keys: [PublicKey]) -> [PublicKey] {
        let message = Self.message(kind, payload)
        return keys.filter { key in
            signatures.contains { signature in
                guard signature.keyID == key.id, key.algorithm == .ed25519 else { return false }
                return (try? key.verify(signature: signature.bytes, message: message)) == true
            }
        }
    }

    private static func message(_ kind: Kind, _ payload: [UInt8]) -> [UInt8] {
        Array("otaflash-\(kind.rawValue)-v1\0".utf8) + payload
    }

    private static func base64(_ bytes: [UInt8]) -> String { String(decoding: Base64.encode(bytes), as: UTF8.self) }

    /// Decodes Base64. Returns nil for a text that an encoder would not write, for example with unused bits that are not zero. So each
    /// value has exactly one text.
    private static func bytes(_ text: String) -> [UInt8]? {
        let text = Array(text.utf8)
        guard let bytes = Base64.decode(text), Base64.encode(bytes) == text else { return nil }
        return bytes
    }

    private static func keyID(_ text: String) -> KeyID? {
        guard let bytes = Hex.decode(text), Hex.encode(bytes) == text else { return nil }
        return KeyID(bytes: bytes)
    }
}
