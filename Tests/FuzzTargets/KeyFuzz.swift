import OTASigning

/// What is taken for a key can be written, and comes back as it was.
enum KeyFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        let text = SecretBytes(copying: bytes)
        if let key = try? PublicKey(pem: text) {
            guard let again = try? PublicKey(pem: key.pem()), again == key else {
                return "another public key comes out"
            }
        }
        if let key = try? PrivateKey(pem: text, passphrase: Passphrase(SecretBytes(copying: Array("fuzz".utf8)))) {
            guard let again = try? PrivateKey(pem: key.pem()), again.publicKey == key.publicKey else {
                return "another private key comes out"
            }
        }
        return nil
    }
}
