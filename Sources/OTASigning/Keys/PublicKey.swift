internal import COpenSSL
public import OTAFirmware

/// An Ed25519 public key (RFC 8032: pure Ed25519, without a context).
public struct PublicKey: Sendable {
    /// The 32 raw bytes.
    public let bytes: [UInt8]
    /// The first 8 bytes of SHA-256 over `bytes`.
    public let id: KeyID

    /// - Throws: `not-a-key` unless there are 32 bytes; `small-order` for a point whose signatures anyone can forge.
    public init(bytes: [UInt8]) throws(KeyError) {
        guard bytes.count == 32 else {
            throw KeyError(.notAKey, "an Ed25519 public key has 32 bytes, not \(bytes.count)")
        }
        guard !SmallOrder.contains(bytes) else {
            throw KeyError(.smallOrder, "a point of small order: anybody can sign for it")
        }
        guard let id = KeyID(bytes: SHA256.digest(of: bytes).prefix) else {
            throw KeyError(.cryptography, "a digest shorter than a key id")
        }
        self.bytes = bytes
        self.id = id
    }

    /// Returns whether `signature` (64 bytes) over `message` is valid. libcrypto rejects S ≥ L.
    public func verify(signature: [UInt8], message: [UInt8]) -> Bool {
        do {
            try KeyHandle.ed25519(publicKey: bytes).verify(signature, over: message)
            return true
        } catch {
            return false
        }
    }
}

extension PublicKey: Hashable {
    public static func == (left: PublicKey, right: PublicKey) -> Bool { left.bytes == right.bytes }
    public func hash(into hasher: inout Hasher) { hasher.combine(bytes) }
}

extension PublicKey {
    /// The first bytes of an Ed25519 SubjectPublicKeyInfo (RFC 8410, section 4), before the 32 bytes of the key. DER allows no
    /// other encoding.
    private static let header: [UInt8] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00]

    /// The SubjectPublicKeyInfo in DER, 44 bytes. MCUboot identifies a key by the SHA-256 of these bytes.
    public var subjectPublicKeyInfo: [UInt8] { Self.header + bytes }

    /// Reads a PEM text with a SubjectPublicKeyInfo. `openssl pkey -pubout` writes this format.
    ///
    /// - Throws: `not-a-key`, `wrong-algorithm`, `small-order`, `key-too-large`.
    public init(pem: SecretBytes) throws(KeyError) {
        let info = try PEMBlock(in: pem, labels: "PUBLIC KEY").contents.withUnsafeBytes { Array($0) }
        guard info.starts(with: Self.header) else { throw Self.refusal(of: info) }
        try self.init(bytes: Array(info.dropFirst(Self.header.count)))
    }

    /// Returns the PEM text of this key, identical to the output of `openssl`.
    public func pem() throws(KeyError) -> SecretBytes {
        try KeyError.translating { () throws(OpenSSLFailure) in
            try PEMBlock.write(subjectPublicKeyInfo, label: "PUBLIC KEY")
        }
    }

    /// Returns the error for an `info` that is not an Ed25519 key. It names the algorithm if `info` has one.
    private static func refusal(of info: [UInt8]) -> KeyError {
        let name = info.withUnsafeBufferPointer { buffer -> String? in
            var next = buffer.baseAddress
            guard let parsed = d2i_X509_PUBKEY(nil, &next, buffer.count) else { return nil }
            defer { X509_PUBKEY_free(parsed) }
            var identifier: OpaquePointer?
            guard X509_PUBKEY_get0_param(&identifier, nil, nil, nil, parsed) == 1 else { return nil }
            return AlgorithmName.of(identifier)
        }
        _ = OpenSSLFailure.drain()
        guard let name else { return KeyError(.notAKey, "its SubjectPublicKeyInfo is damaged") }
        return KeyError(.wrongAlgorithm, "it is a key for \(name); only Ed25519 is taken")
    }
}
