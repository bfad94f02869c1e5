internal import OTAFirmware

/// A signed attestation: a DSSE envelope with an in-toto statement.
///
/// Source: https://github.com/secure-systems-lab/dsse, version 1 (`protocol.md`, `envelope.md`).
package struct AttestationEnvelope: Sendable, Hashable {
    package struct Signature: Sendable, Hashable {
        /// The signer's name for the key. otaflash uses this text only in messages, because the signature does not cover the text.
        package let keyID: String?
        package let bytes: [UInt8]
    }

    /// The media type of the payload in every accepted envelope.
    package static let payloadType = "application/vnd.in-toto+json"
    /// The maximum number of signatures.
    package static let maximumSignatures = 8

    /// The JSON text of the statement. Each signature covers a DSSE prefix followed by exactly these bytes (`signedBytes(of:)`).
    package let payload: [UInt8]
    package let signatures: [Signature]

    /// Signs a statement with each of `keys`. DSSE has a prefix of its own, so an ML-DSA signature has no context.
    ///
    /// - Throws: `signer-protocol` if a key returns an invalid signature; the errors of the keys.
    package init(signing statement: Statement, with keys: [any Signer]) throws(KeyError) {
        let payload = statement.json.text
        self.payload = payload
        signatures = try keys.map { (key) throws(KeyError) in
            Signature(
                keyID: key.publicKey.id.description,
                bytes: try key.verifiedSignature(of: Self.signedBytes(of: payload), in: .none))
        }
    }

    /// Parses the JSON of an envelope. Unknown members are ignored.
    ///
    /// - Throws: `attestation-malformed`.
    package init(parsing line: ArraySlice<UInt8>) throws(AttestationError) {
        let json = try Self.json(line, "the envelope")
        guard json.members != nil else { throw Self.malformed("the envelope is not a JSON object") }
        guard let type = json["payloadType"]?.string else { throw Self.malformed("the envelope has no payloadType") }
        guard type.utf8.elementsEqual(Self.payloadType.utf8) else {
            throw Self.malformed("the payload type is '\(type.prefix(80))'; expected \(Self.payloadType)")
        }
        guard let payload = Self.bytes(ofBase64: json["payload"]) else {
            throw Self.malformed("the payload is not Base64")
        }
        guard let list = json["signatures"]?.array, (1...Self.maximumSignatures).contains(list.count) else {
            throw Self.malformed("an envelope has 1 to \(Self.maximumSignatures) signatures")
        }
        var signatures: [Signature] = []
        for item in list {
            guard let bytes = Self.bytes(ofBase64: item["sig"]) else {
                throw Self.malformed("a signature is not Base64")
            }
            signatures.append(Signature(keyID: item["keyid"]?.string, bytes: bytes))
        }
        self.payload = payload
        self.signatures = signatures
    }

    /// The envelope as JSON on one line, without a line feed.
    package var line: [UInt8] {
        func base64(_ bytes: [UInt8]) -> JSON { .string(String(decoding: Base64.encode(bytes), as: UTF8.self)) }
        let signatures = signatures.map { signature in
            JSON.object(
                (signature.keyID.map { [JSON.Member("keyid", .string($0))] } ?? [])
                    + [JSON.Member("sig", base64(signature.bytes))])
        }
        return JSON.object([
            JSON.Member("payload", base64(payload)), JSON.Member("payloadType", .string(Self.payloadType)),
            JSON.Member("signatures", .array(signatures)),
        ]).text
    }

    /// Returns the bytes that a signature of `payload` covers: DSSE's pre-authentication encoding.
    static func signedBytes(of payload: [UInt8]) -> [UInt8] {
        Array("DSSEv1 \(payloadType.utf8.count) \(payloadType) \(payload.count) ".utf8) + payload
    }

    /// Returns each key with a valid signature in the envelope, in the order of `keys`.
    ///
    /// Each signature is verified with each key. The key ID of a signature does not select the key, because the key ID is not signed.
    ///
    /// - Throws: `unsupported-openssl`, `crypto-failed` if a signature could not be checked.
    func signers(among keys: [PublicKey]) throws(KeyError) -> [PublicKey] {
        let message = Self.signedBytes(of: payload)
        var signers: [PublicKey] = []
        for key in keys {
            for signature in signatures where try key.verify(signature: signature.bytes, message: message, in: .none) {
                signers.append(key)
                break
            }
        }
        return signers
    }

    static func json(_ text: ArraySlice<UInt8>, _ what: String) throws(AttestationError) -> JSON {
        do throws(JSON.Malformed) { return try JSON(parsing: text) } catch {
            throw malformed("\(what) is not valid JSON: \(error.reason), at byte \(error.offset)")
        }
    }

    /// Decodes Base64 in the standard alphabet or in the URL-safe alphabet (RFC 4648, sections 4 and 5). DSSE requires that a verifier
    /// accepts both.
    ///
    /// - Returns: nil if `text` is not a Base64 string or mixes both alphabets. The last character can have bits that are not used for a
    ///   byte. The result is also nil if these bits are not zero, because a correct encoder sets them to zero.
    private static func bytes(ofBase64 text: JSON?) -> [UInt8]? {
        guard var text = (text?.string?.utf8).map(Array.init) else { return nil }
        let (plus, slash) = (UInt8(ascii: "+"), UInt8(ascii: "/"))
        let (minus, underscore) = (UInt8(ascii: "-"), UInt8(ascii: "_"))
        if text.contains(where: { $0 == minus || $0 == underscore }) {
            guard !text.contains(where: { $0 == plus || $0 == slash }) else { return nil }
            text = text.map { $0 == minus ? plus : $0 == underscore ? slash : $0 }
        }
        guard let bytes = Base64.decode(text), Base64.encode(bytes) == text else { return nil }
        return bytes
    }

    static func malformed(_ context: String) -> AttestationError { AttestationError(.malformed, context) }
}

/// The envelopes of an attestation file (JSON Lines): one envelope on each line.
package struct AttestationFile: Sendable, Hashable {
    /// The maximum size in bytes.
    package static let maximumSize = 32 << 20
    /// The maximum number of envelopes.
    package static let maximumCount = 64

    package let envelopes: [AttestationEnvelope]

    /// Parses a file. A line feed ends each line, but may be missing after the last line. An empty line is an error.
    ///
    /// - Throws: `attestation-malformed`. For an error in one envelope, the context starts with the number of the envelope's line.
    package init(parsing bytes: [UInt8]) throws(AttestationError) {
        guard bytes.count <= Self.maximumSize else {
            throw AttestationEnvelope.malformed(
                "the file has \(bytes.count) bytes; the limit is \(Self.maximumSize >> 20) MiB")
        }
        let text = bytes.last == UInt8(ascii: "\n") ? bytes.dropLast() : bytes[...]
        let lines = text.split(
            separator: UInt8(ascii: "\n"), maxSplits: Self.maximumCount, omittingEmptySubsequences: false)
        guard lines.count <= Self.maximumCount else {
            throw AttestationEnvelope.malformed("the file has more than \(Self.maximumCount) lines")
        }
        var envelopes: [AttestationEnvelope] = []
        for (index, line) in lines.enumerated() {
            do throws(AttestationError) { envelopes.append(try AttestationEnvelope(parsing: line)) } catch {
                throw error.at(line: index + 1)
            }
        }
        self.envelopes = envelopes
    }
}
