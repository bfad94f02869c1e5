internal import OTAFirmware
package import OTASigning

/// Encodes the requests to an SSH agent and decodes its answers (draft-ietf-sshm-ssh-agent, sections 3 and 6).
///
/// A message is one byte for the type, followed by the contents. On the socket, 4 bytes with the length of the message (big-endian) precede
/// each message.
package enum AgentMessage {
    /// The maximum length of a message, in bytes. OpenSSH has the same limit (`AGENT_MAX_LEN` in `ssh-agent.c`).
    package static let maximumLength = 256 << 10
    /// The maximum number of keys in an answer. OpenSSH has the same limit (`MAX_AGENT_IDENTITIES` in `authfd.c`).
    static let maximumKeys = 2048

    private enum Kind {
        static let failure: UInt8 = 5
        static let listKeys: UInt8 = 11
        static let keys: UInt8 = 12
        static let sign: UInt8 = 13
        static let signature: UInt8 = 14
    }

    /// The name of Ed25519 keys and signatures (RFC 8709, sections 4 and 6).
    private static let ed25519 = Array("ssh-ed25519".utf8)

    /// An error in an answer of the agent.
    package enum Fault: Error, Equatable {
        /// The agent answered with the message FAILURE, which does not contain a reason.
        case refused
        /// The answer violates the protocol. The text describes the violation.
        case malformed(String)
    }

    /// An Ed25519 key in an agent.
    package struct Key: Sendable, Equatable {
        package let publicKey: PublicKey
        /// The comment of the key, as `ssh-add -l` shows it. Unprintable characters are escaped.
        package let comment: String
    }

    // MARK: Requests

    /// The request for a list of all keys.
    static let listKeys: [UInt8] = [Kind.listKeys]

    /// The request for the Ed25519 signature of `message`.
    static func sign(_ message: [UInt8], with key: PublicKey) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(Kind.sign)
        writer.write(string: blob(of: key))
        writer.write(string: message)
        // The flags. They only select the digest of an RSA signature, so they are 0.
        writer.write(UInt32(0), .bigEndian)
        return writer.bytes
    }

    /// Returns the public key in the encoding of SSH.
    private static func blob(of key: PublicKey) -> [UInt8] {
        var writer = ByteWriter()
        writer.write(string: ed25519)
        writer.write(string: key.bytes)
        return writer.bytes
    }

    // MARK: Answers

    /// Decodes the answer to `listKeys`. The result contains only Ed25519 keys. It does not contain keys of small order, because anyone can
    /// forge their signatures.
    package static func keys(in answer: [UInt8]) throws(Fault) -> [Key] {
        var reader = try contents(of: answer, Kind.keys, "a list of keys")
        var keys: [Key] = []
        try checked { () throws(ByteReader.Truncated) in
            let count = try reader.read(UInt32.self, .bigEndian)
            guard count <= maximumKeys else { return Fault.malformed("a list of \(count) keys") }
            for _ in 0..<count {
                var blob = ByteReader(try reader.readString())
                let comment = try reader.readString()
                guard try Array(blob.readString()) == ed25519 else { continue }
                let bytes = Array(try blob.readString())
                guard bytes.count == 32, blob.remaining == 0 else { return .malformed("a malformed Ed25519 key") }
                // The length is correct, so the error can only be `small-order`.
                guard let key = try? PublicKey(bytes: bytes) else { continue }
                keys.append(Key(publicKey: key, comment: String(decoding: comment, as: UTF8.self).escapingUnprintable))
            }
            return end(of: reader)
        }
        return keys
    }

    /// Decodes the answer to `sign(_:with:)`: an Ed25519 signature of 64 bytes.
    package static func signature(in answer: [UInt8]) throws(Fault) -> [UInt8] {
        var reader = try contents(of: answer, Kind.signature, "a signature")
        var signature: [UInt8] = []
        try checked { () throws(ByteReader.Truncated) in
            var blob = ByteReader(try reader.readString())
            guard try Array(blob.readString()) == ed25519 else { return .malformed("a signature that is not Ed25519") }
            signature = Array(try blob.readString())
            guard signature.count == 64 else {
                return .malformed("a signature of \(signature.count) bytes; expected 64")
            }
            return end(of: blob) ?? end(of: reader)
        }
        return signature
    }

    /// Checks the type of an answer, and returns a reader of its contents.
    private static func contents(of answer: [UInt8], _ kind: UInt8, _ expected: String) throws(Fault) -> ByteReader {
        guard let first = answer.first else { throw .malformed("an empty message") }
        guard first != Kind.failure else { throw .refused }
        guard first == kind else { throw .malformed("a message of type \(first); expected \(expected) (type \(kind))") }
        return ByteReader(answer.dropFirst())
    }

    private static func end(of reader: ByteReader) -> Fault? {
        reader.remaining == 0 ? nil : .malformed("\(reader.remaining) bytes after the end of a message")
    }

    /// Runs `body`, which decodes a message. If `body` returns a fault, this method throws the fault. A message that is too short is
    /// `malformed`.
    private static func checked(_ body: () throws(ByteReader.Truncated) -> Fault?) throws(Fault) {
        let fault: Fault?
        do throws(ByteReader.Truncated) {
            fault = try body()
        } catch {
            fault = .malformed("a message that ends too early")
        }
        if let fault { throw fault }
    }
}

extension ByteReader {
    /// Reads a string of SSH: the length as 4 bytes in big-endian order, and the bytes (RFC 4251, section 5).
    fileprivate mutating func readString() throws(Truncated) -> ArraySlice<UInt8> {
        let length = try read(UInt32.self, .bigEndian)
        return try read(Int(length))
    }
}

extension ByteWriter {
    /// Appends a string of SSH: the length as 4 bytes in big-endian order, and the bytes (RFC 4251, section 5).
    fileprivate mutating func write(string bytes: [UInt8]) {
        write(UInt32(clamping: bytes.count), .bigEndian)
        write(bytes)
    }
}
