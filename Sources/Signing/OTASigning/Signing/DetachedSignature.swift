internal import OTAFirmware

/// The contents of a signature file. The signature was created on another machine, for example with `openssl pkeyutl -sign`.
package struct DetachedSignature: Sendable {
    /// The name of the file, for messages.
    package let name: String
    /// The byte strings that can be the signature: the contents of the file and, if the contents are text in hex or Base64, also the
    /// decoded bytes. Only the verification shows which candidate is the signature.
    private let candidates: [[UInt8]]
    private let length: Int

    package init(_ contents: [UInt8], name: String) {
        self.name = name
        candidates = SignatureEncoding.decodings(of: contents)
        length = contents.count
    }

    /// Returns the first candidate that `isValid` accepts. Returns nil if no candidate is valid.
    fileprivate func bytes(_ isValid: ([UInt8]) throws(KeyError) -> Bool) throws(KeyError) -> [UInt8]? {
        for candidate in candidates where try isValid(candidate) { return candidate }
        return nil
    }

    /// Returns the error for a signature that is not valid for any of `keys`.
    fileprivate func unmatched(_ keys: [ImagePublicKey], hint: String) -> KeyError {
        let lengths = keys.map { $0.bundleKey?.algorithm.signatureLength }
        guard lengths.contains(nil) || candidates.contains(where: { lengths.contains($0.count) }) else {
            let expected = Set(keys.compactMap(\.bundleKey?.algorithm)).sorted { $0.rawValue < $1.rawValue }
                .map { "a signature by \($0) has \($0.signatureLength) bytes" }.joined(separator: ", ")
            return KeyError(
                .signatureUnmatched,
                "\(name) has \(length) bytes; \(expected), or it is the text of these bytes in hex or Base64")
        }
        let ids = keys.map(\.id.description).joined(separator: ", ")
        let key = keys.count == 1 ? "the public key \(ids)" : "any of the public keys \(ids)"
        return KeyError(.signatureUnmatched, "\(name) is not a valid signature for \(key)", hint: hint)
    }
}

/// A public key together with its existing signature of the manifest of a bundle.
///
/// `sign(_:in:)` ignores its parameters and always returns this signature. `verifiedSignature(of:in:)` throws an error if its parameter is
/// not the signed message.
package struct DetachedSigner: Signer {
    package let publicKey: PublicKey
    private let signature: [UInt8]

    /// Finds the signature of each key and returns one signer for each key. `signatures` and `keys` may be in different orders.
    ///
    /// - Parameter message: the signed bytes: a manifest.
    /// - Throws: `unsupported-openssl` for an ML-DSA key, if libcrypto does not support ML-DSA; `signature-unmatched` if a signature is not
    ///   valid for any of the keys, if two signatures are by the same key, or if a key
    ///   has no signature.
    package static func signers(
        _ signatures: [DetachedSignature], keys: [PublicKey], message: [UInt8]
    ) throws(KeyError) -> [DetachedSigner] {
        var found: [PublicKey: (name: String, bytes: [UInt8])] = [:]
        for signature in signatures {
            var match: (PublicKey, [UInt8])?
            for key in keys where match == nil {
                match = try signature.bytes { (bytes) throws(KeyError) in
                    try key.verify(signature: bytes, message: message, in: .bundle)
                }.map { (key, $0) }
            }
            guard let (key, bytes) = match else {
                throw signature.unmatched(
                    keys.map(ImagePublicKey.init),
                    hint:
                        "give the public key of the signer; or sign exactly the bytes that --to-sign wrote for this release"
                )
            }
            if let other = found.updateValue((signature.name, bytes), forKey: key) {
                throw KeyError(
                    .signatureUnmatched, "\(other.name) and \(signature.name) are signatures by the same key \(key.id)",
                    hint: "give one signature for each key")
            }
        }
        return try keys.map { (key) throws(KeyError) in
            guard let signature = found[key] else {
                throw KeyError(
                    .signatureUnmatched, "there is no signature by the public key \(key.id)",
                    hint: "add its signature with --signature FILE, or omit its --public-key")
            }
            return DetachedSigner(publicKey: key, signature: signature.bytes)
        }
    }

    package func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] { signature }
}

/// A public key for MCUboot images together with the existing signature of one image.
package struct DetachedImageSigner: ImageSigner {
    package let publicKey: ImagePublicKey
    private let signature: DetachedSignature

    package init(_ signature: DetachedSignature, by publicKey: ImagePublicKey) {
        self.publicKey = publicKey
        self.signature = signature
    }

    /// Returns the existing signature.
    ///
    /// - Throws: `signature-unmatched` if the signature is not a valid signature of `message`.
    package func sign(_ message: [UInt8]) throws(KeyError) -> [UInt8] {
        let bytes = try signature.bytes { (bytes) throws(KeyError) in try publicKey.isValid(bytes, of: message) }
        guard let bytes else {
            throw signature.unmatched(
                [publicKey],
                hint: "give the same image and options as with --to-sign, and the public key of the signer\(encoding)")
        }
        return bytes
    }

    private var encoding: String {
        switch publicKey.algorithm {
        case .ed25519, .mlDSA44, .mlDSA65, .mlDSA87: ""
        case .ecdsaP256: "; an ECDSA signature must be in DER"
        case .rsa2048, .rsa3072: "; an RSA signature must be RSASSA-PSS with SHA-256 and a salt of 32 bytes"
        }
    }
}

/// Decodes signatures that other programs wrote: as raw bytes, or as text in hex or Base64.
package enum SignatureEncoding {
    /// The maximum length of an encoded signature, in bytes. The longest supported signature (ML-DSA-87) has 9254 hex digits.
    private static let maximumLength = 16384

    /// Returns the byte strings that `contents` can mean: first `contents` itself, then the decoded bytes if `contents` is text in hex or
    /// Base64. White space in a text is ignored. A text can be valid both in hex and in Base64.
    ///
    /// - Returns: an empty list if `contents` is empty or longer than `maximumLength`.
    package static func decodings(of contents: [UInt8]) -> [[UInt8]] {
        guard (1...maximumLength).contains(contents.count) else { return [] }
        let text = contents.filter { !" \t\r\n".utf8.contains($0) }
        let decoded = [Hex.decode(String(decoding: text, as: UTF8.self)), Base64.decode(text)]
        return [contents] + decoded.compactMap { $0 }
    }
}
