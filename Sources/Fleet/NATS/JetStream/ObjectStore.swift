import COpenSSL
import FoundationEssentials

/// An object store of JetStream: large values in chunks, with a digest.
///
/// The store BUCKET is the stream `OBJ_BUCKET`. A chunk has the subject `$O.BUCKET.C.ID`, where ID is ``ObjectDescription/identifier``. A
/// description has the subject `$O.BUCKET.M.NAME`, where NAME is the object's name in URL-safe base64 with padding (RFC 4648, section 5).
/// Source: ADR-20 of the NATS project. Other clients can use the same store.
public struct ObjectStore: Sendable {
    /// The size of a chunk in bytes. It is the default of ADR-20.
    public static let chunkSize = 128 * 1024

    public let name: String
    public let stream: StoredStream

    /// Creates a value that accesses this object store over the client. The initializer sends nothing, and does not check whether the store
    /// exists.
    ///
    /// - Throws: `invalidArguments` if the name is not made of letters, digits, `_` and `-`.
    public init(_ name: String, _ client: NATSClient) throws(NATSError) {
        self.name = name
        stream = try StoredStream("OBJ_\(name)", client)
    }

    /// Creates the store. This method does nothing if the store already exists with the same settings.
    ///
    /// - Parameter replicas: the number of servers that store the objects: 1, 3 or 5.
    ///
    /// - Throws: the errors of a request; `otherSettings` if the store exists with other settings.
    public func create(replicas: Int = 1, maximumBytes: Int? = nil) async throws(NATSError) {
        var settings = StoredStream.Settings(name: stream.name, subjects: ["$O.\(name).C.>", "$O.\(name).M.>"])
        settings.num_replicas = replicas
        settings.max_bytes = Int64(maximumBytes ?? -1)
        settings.allow_rollup_hdrs = true
        try await stream.create(settings)
    }

    /// Stores an object. This method writes nothing if the store has an intact object with the same name, size and digest. Any other object
    /// with this name is replaced.
    ///
    /// If this method throws an error, an earlier object with this name is unchanged. Exception: if ``NATSError/isOutcomeUnknown`` is true,
    /// the new object may have replaced the earlier one.
    ///
    /// - Throws: the errors of ``StoredStream/store(_:subject:headers:identifier:expecting:)``.
    @discardableResult
    public func put(_ bytes: [UInt8], name object: String) async throws(NATSError) -> ObjectDescription {
        guard let digest = SHA256.digest(bytes) else { throw NATSError(.resourcesExhausted, "no memory for a SHA-256") }
        let earlier = try await description(of: object)
        if let earlier, earlier.size == bytes.count, earlier.digest == digest, try await isIntact(object) {
            return earlier
        }

        let identifier = NATSConnection.randomToken()
        var chunks = 0
        do throws(NATSError) {
            for start in stride(from: 0, to: bytes.count, by: Self.chunkSize) {
                let chunk = Array(bytes[start..<min(start + Self.chunkSize, bytes.count)])
                _ = try await stream.store(chunk, subject: chunkSubject(identifier))
                chunks += 1
            }
            let description = ObjectDescription(
                name: object, bucket: name, identifier: identifier, size: bytes.count, chunks: chunks, digest: digest)
            // With this header, the server removes the earlier descriptions of this object.
            _ = try await stream.store(
                try JetStreamJSON.encode(description.stored), subject: try descriptionSubject(object),
                headers: ["Nats-Rollup": "sub"])
            if let earlier { _ = try? await stream.purge(subject: chunkSubject(earlier.identifier)) }
            return description
        } catch {
            // If the outcome is unknown, the server may have stored the description, and then the chunks must stay. If the purge fails, the
            // chunks only use space, because no client reads chunks without a description.
            if !error.isOutcomeUnknown { _ = try? await stream.purge(subject: chunkSubject(identifier)) }
            throw error
        }
    }

    /// Returns false if the chunks of an object do not match its description, for example because the server has lost chunks.
    private func isIntact(_ object: String) async throws(NATSError) -> Bool {
        do throws(NATSError) { return try await get(object) != nil } catch {
            guard error.code == .corruptObject else { throw error }
            return false
        }
    }

    /// Returns the bytes of an object; nil if the object does not exist or is deleted. This method compares the bytes with the size and the
    /// digest in the description.
    ///
    /// - Parameter limit: the maximum size in bytes.
    ///
    /// - Throws: the errors of a request; `tooLarge` if the object is larger than `limit`; `corruptObject` if the chunks do not match
    ///   the description; `protocolError` if the description is malformed.
    public func get(_ object: String, limit: Int = 64 << 20) async throws(NATSError) -> [UInt8]? {
        guard let description = try await description(of: object) else { return nil }
        guard description.size <= limit else {
            throw NATSError(.tooLarge, "the object has \(description.size) bytes, and the limit is \(limit)")
        }
        var (bytes, sequence) = ([UInt8](), UInt64(1))
        for _ in 0..<description.chunks {
            let subject = chunkSubject(description.identifier)
            guard let chunk = try await stream.next(from: sequence, filter: subject), !chunk.payload.isEmpty else {
                throw corrupt(object, "a chunk is missing")
            }
            bytes += chunk.payload
            sequence = chunk.sequence &+ 1
            guard bytes.count <= description.size else { throw corrupt(object, "more than \(description.size) bytes") }
        }
        guard bytes.count == description.size, SHA256.digest(bytes) == description.digest else {
            throw corrupt(object, "the size or the SHA-256 is wrong")
        }
        return bytes
    }

    /// Returns the description of an object; nil if the object does not exist or is deleted.
    public func description(of object: String) async throws(NATSError) -> ObjectDescription? {
        guard let message = try await stream.last(subject: try descriptionSubject(object)) else { return nil }
        let stored = try JetStreamJSON.decode(
            ObjectDescription.Stored.self, message.payload, "cannot read the description of the object \(object)")
        if stored.deleted == true { return nil }
        guard let description = ObjectDescription(stored), description.name == object, description.bucket == name else {
            throw .malformed("description of the object \(object)")
        }
        return description
    }

    private func corrupt(_ object: String, _ cause: String) -> NATSError {
        NATSError(.corruptObject, "the object \(object) in the store \(name) is not complete", cause: cause)
    }

    private func chunkSubject(_ identifier: String) -> String { "$O.\(name).C.\(identifier)" }

    private func descriptionSubject(_ object: String) throws(NATSError) -> String {
        guard !object.isEmpty, object.utf8.count <= 256 else {
            throw NATSError(
                .invalidArguments, "the name of an object must have 1 to 256 bytes, and has \(object.utf8.count)")
        }
        return "$O.\(name).M.\(Data(object.utf8).base64URL)"
    }
}

/// The description of an object.
public struct ObjectDescription: Sendable, Equatable {
    public let name: String
    public let bucket: String
    /// The last token of the chunks' subject. All chunks of an object have the same subject.
    public let identifier: String
    /// The size in bytes.
    public let size: Int
    public let chunks: Int
    /// The 32 bytes of the SHA-256.
    public let digest: [UInt8]
}

extension ObjectDescription {
    /// The description in JSON.
    struct Stored: Codable {
        struct Options: Codable {
            var max_chunk_size: Int?
        }

        var name: String
        var bucket: String
        var nuid: String
        var size: Int
        var chunks: Int
        var digest: String?
        var deleted: Bool?
        var options: Options?
    }

    private static let digestPrefix = "SHA-256="

    var stored: Stored {
        Stored(
            name: name, bucket: bucket, nuid: identifier, size: size, chunks: chunks,
            digest: Self.digestPrefix + Data(digest).base64URL, options: .init(max_chunk_size: ObjectStore.chunkSize))
    }

    /// Reads the JSON of a description. Returns nil if the JSON is malformed, or if a value is missing or out of range.
    package init?(parsing payload: [UInt8]) {
        guard let stored = try? JetStreamJSON.decode(Stored.self, payload, "") else { return nil }
        self.init(stored)
    }

    /// The JSON of the description.
    package var json: [UInt8]? { try? JetStreamJSON.encode(stored) }

    /// Checks a decoded description. Returns nil if a value is missing or out of range.
    init?(_ stored: Stored) {
        guard Subject.isToken(stored.nuid), stored.size >= 0, stored.chunks >= 0, stored.chunks <= max(1, stored.size),
            let text = stored.digest, text.uppercased().hasPrefix(Self.digestPrefix),
            let digest = Data(base64URL: String(text.dropFirst(Self.digestPrefix.count))), digest.count == SHA256.size
        else { return nil }
        self.init(
            name: stored.name, bucket: stored.bucket, identifier: stored.nuid, size: stored.size, chunks: stored.chunks,
            digest: [UInt8](digest))
    }
}

/// Computes SHA-256 with OpenSSL, which libnats already needs.
private enum SHA256 {
    static let size = 32

    /// Returns the 32 bytes of the digest; nil if OpenSSL has no memory or no SHA-256.
    static func digest(_ bytes: [UInt8]) -> [UInt8]? {
        var (digest, count) = ([UInt8](repeating: 0, count: size), size)
        guard EVP_Q_digest(nil, "SHA256", nil, bytes, bytes.count, &digest, &count) == 1, count == size else {
            return nil
        }
        return digest
    }
}

extension Data {
    /// Base64 with `-` and `_` (RFC 4648, section 5), with padding.
    var base64URL: String {
        base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
    }

    /// Decodes base64 with `+` and `/` or with `-` and `_`, with or without padding. Returns nil if the text is malformed.
    init?(base64URL text: String) {
        var text = text.replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        self.init(base64Encoded: text)
    }
}
