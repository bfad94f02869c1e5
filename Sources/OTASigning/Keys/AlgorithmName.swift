internal import COpenSSL

/// Names a key's algorithm for messages.
enum AlgorithmName {
    /// Returns the common name, or libcrypto's name of the object identifier, or its numbers with dots.
    static func of(_ identifier: OpaquePointer?) -> String? {
        guard let identifier else { return nil }
        switch OBJ_obj2nid(identifier) {
        case NID_rsaEncryption, NID_rsassaPss: return "RSA"
        case NID_X9_62_id_ecPublicKey: return "EC"
        case NID_dsa: return "DSA"
        default: break
        }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { buffer in
            let count = Int(OBJ_obj2txt(buffer.baseAddress, Int32(buffer.count), identifier, 0))
            guard count > 0, let start = buffer.baseAddress else { return nil }
            return String(cString: start)
        }
    }
}
