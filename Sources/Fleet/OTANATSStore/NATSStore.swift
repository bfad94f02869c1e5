internal import DescriptorIO
public import NATS
public import OTAFirmware
public import OTAStore

/// The store of a fleet on NATS servers.
///
/// Each bucket is the key-value bucket `otaflash_BUCKET`, objects are in the object store `otaflash_bundles`, and events are in the stream
/// `otaflash_events`. The revisions of two buckets are not comparable, because each bucket has its own counter.
///
/// Reading needs only the permission for `DIRECT.GET`. ``withChanges(of:_:)`` and ``records(in:)`` create a consumer if the server permits
/// it. Otherwise they read one record with each request, and ``withChanges(of:_:)`` looks for new records every 2 s.
public struct NATSStore: CleanableStore {
    private let client: NATSClient
    private let buckets: [Bucket: KeyValueBucket]
    /// The server has refused a consumer of these buckets.
    private let withoutConsumer = Guarded<Set<Bucket>>([])
    private let objects: ObjectStore
    private let history: EventHistory

    /// Creates a store that uses this connection. The initializer sends nothing, and does not check whether the buckets exist.
    public init(_ client: NATSClient) throws(StoreError) {
        do {
            var buckets: [Bucket: KeyValueBucket] = [:]
            for bucket in Bucket.allCases {
                buckets[bucket] = try KeyValueBucket("otaflash_\(bucket.rawValue)", client)
            }
            self.client = client
            self.buckets = buckets
            objects = try ObjectStore("otaflash_bundles", client)
            history = try EventHistory(client)
        } catch {
            throw StoreError(error)
        }
    }

    /// Creates the buckets, the object store and the history. This method does nothing if they already exist with the same settings.
    ///
    /// With the accounts of ``ServerConfiguration``, the user must be an operator.
    ///
    /// - Parameter replicas: the number of servers that store each record: 1, 3 or 5.
    /// - Throws: `unavailable`, for example if a bucket exists with other settings; `full`, `corrupt`.
    public func create(replicas: Int = 1) async throws(StoreError) {
        do {
            let gatewayAPI = try await gatewayAPIPrefix()
            for bucket in Bucket.allCases {
                let isOfGateways = ServerConfiguration.gatewayBuckets.contains(bucket)
                let stored = try KeyValueBucket(
                    "otaflash_\(bucket.rawValue)", client,
                    apiPrefix: isOfGateways ? gatewayAPI : StoredStream.defaultAPIPrefix)
                var settings = KeyValueBucket.Settings()
                settings.history = bucket == .rollouts ? 16 : 1
                settings.maximumAge = bucket.maximumAge
                // The server's limit also includes the headers of a message. 512 bytes are for the headers.
                settings.maximumValueSize = StoreLimits.recordBytes + 512
                settings.replicas = replicas
                // With such a header on its own key, a gateway could remove the records of all devices or gateways.
                settings.permitsRollups = false
                settings.maximumBytes = StoreLimits.bytes(of: bucket)
                if bucket == .devices {
                    settings.maximumKeys = StoreLimits.devices
                    settings.maximumConsumers = StoreLimits.consumers
                    settings.maximumConsumerAge = StoreLimits.consumerAge
                }
                try await ServerCheck.untilReady { () throws(NATSError) in try await stored.create(settings) }
            }
            try await objects.create(replicas: replicas)
            try await EventHistory(client, apiPrefix: gatewayAPI).create(replicas: replicas)
        } catch {
            throw StoreError(error)
        }
    }

    /// Returns the API prefix for the streams that gateways write. It is another one if the user's account imports the API of the gateways'
    /// account.
    private func gatewayAPIPrefix() async throws(NATSError) -> String {
        let prefix = ServerConfiguration.gatewayAPIPrefix
        do throws(NATSError) { _ = try await client.request("\(prefix).INFO") } catch {
            guard [.noResponders, .permissionDenied].contains(error.code) else { throw error }
            return StoredStream.defaultAPIPrefix
        }
        return prefix
    }

    /// The buckets that the connection's user may read and write.
    public struct Access: Sendable {
        public var readable: [Bucket] = []
        public var writable: [Bucket] = []
    }

    /// Finds out which buckets the user may read and write. The method changes no record: its writes expect a revision that does not exist.
    ///
    /// - Throws: `unavailable` if the store does not exist.
    public func access() async throws(StoreError) -> Access {
        var access = Access()
        for bucket in Bucket.allCases {
            guard let stored = buckets[bucket] else { continue }
            do throws(NATSError) {
                _ = try await stored.get("_check")
                access.readable.append(bucket)
            } catch {
                guard error.code == .permissionDenied else { throw StoreError(error) }
            }
            do throws(NATSError) {
                _ = try await stored.stream.store(
                    [], subject: "$KV.\(stored.name)._check", expecting: UInt64(Int64.max))
            } catch {
                switch error.code {
                case .conflict: access.writable.append(bucket)
                // No responders: the bucket is in another account, which does not share it for writing.
                case .permissionDenied, .noResponders: break
                default: throw StoreError(error)
                }
            }
        }
        return access
    }

    /// Returns the number of servers that store each record.
    ///
    /// - Throws: `unavailable` if the store does not exist.
    public func replicas() async throws(StoreError) -> Int {
        do { return try await objects.stream.replicas() } catch { throw StoreError(error) }
    }

    // MARK: - Records

    public func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        guard let bucket = buckets[key.bucket] else { return nil }
        do throws(NATSError) {
            guard let entry = try await bucket.get(key.name.description), !entry.isDeleted else { return nil }
            return StoredRecord(key: key, entry)
        } catch {
            throw StoreError(error)
        }
    }

    public func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        guard let stored = buckets[bucket] else { return [] }
        do throws(NATSError) {
            if !withoutConsumer.with({ $0.contains(bucket) }) {
                do throws(NATSError) {
                    return try await stored.entries().compactMap { StoredRecord($0, bucket) }
                } catch {
                    guard DirectReader.replacesConsumer(after: error) else { throw error }
                }
            }
            var reader = DirectReader(stored)
            let records = try await reader.changed().entries.compactMap { StoredRecord($0, bucket) }
            // The server has refused a consumer, and the bucket exists.
            withoutConsumer.with { _ = $0.insert(bucket) }
            return records
        } catch {
            throw StoreError(error)
        }
    }

    public func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        try StoreLimits.check(bytes, at: key)
        guard let bucket = buckets[key.bucket] else { return .conflict }
        do throws(NATSError) {
            return .written(
                Revision(try await bucket.write(bytes, key.name.description, expecting: expected.number)))
        } catch {
            if error.code == .conflict { return .conflict }
            if error.isOutcomeUnknown { return .unknown }
            // An operator can read the gateways' records. A write has no responders: the account of the gateways does not share it.
            if error.code == .noResponders, key.bucket == .gateways,
                (try? await gatewayAPIPrefix()) == ServerConfiguration.gatewayAPIPrefix
            {
                throw StoreError(
                    .accessRefused,
                    "this user is in the account of the operators, which cannot write the records of gateways"
                )
            }
            throw StoreError(error)
        }
    }

    public func remove(_ key: RecordKey, expecting expected: Revision) async throws(StoreError) -> Bool {
        do throws(NATSError) {
            return try await administered(key.bucket).remove(key.name.description, revision: expected.number)
        } catch {
            throw StoreError(error)
        }
    }

    public func removeForeign(in bucket: Bucket) async throws(StoreError) -> Int {
        do throws(NATSError) {
            let stored = try await administered(bucket)
            var removed = 0
            for key in try await stored.allKeys() where RecordName(key) == nil {
                removed += try await stored.remove(key, revision: UInt64(Int64.max - 1)) ? 1 : 0
            }
            return removed
        } catch {
            throw StoreError(error)
        }
    }

    /// Returns a bucket with the API prefix for its administration.
    private func administered(_ bucket: Bucket) async throws(NATSError) -> KeyValueBucket {
        let prefix =
            ServerConfiguration.gatewayBuckets.contains(bucket)
            ? try await gatewayAPIPrefix() : StoredStream.defaultAPIPrefix
        return try KeyValueBucket("otaflash_\(bucket.rawValue)", client, apiPrefix: prefix)
    }

    public func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        guard let stored = buckets[bucket] else { return try await body(RecordChanges(AsyncStream { nil })) }
        let source = ChangeSource(stored, bucket, hasConsumer: !withoutConsumer.with { $0.contains(bucket) })
        return try await body(RecordChanges(AsyncStream { await source.next() }))
    }

    // MARK: - Objects and events

    public func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        try StoreLimits.check(bytes, digest: digest)
        do throws(NATSError) { try await objects.put(bytes, name: digest.description) } catch {
            throw StoreError(error)
        }
    }

    public func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        let bytes: [UInt8]?
        do throws(NATSError) {
            bytes = try await objects.get(digest.description, limit: StoreLimits.objectBytes)
        } catch {
            throw StoreError(error)
        }
        // The object store compares the bytes only with the digest in the object's description. The caller trusts the digest that is the
        // object's name, so compare the bytes with this digest, too.
        if let bytes { try StoreLimits.check(bytes, digest: digest) }
        return bytes
    }

    public func append(_ event: FleetEvent) async throws(StoreError) {
        try StoreLimits.check(event)
        do throws(NATSError) { try await history.append(event) } catch { throw StoreError(error) }
    }

    public func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        do throws(NATSError) { return try await history.events(after: number) } catch { throw StoreError(error) }
    }
}

extension StoredRecord {
    /// Creates the record of a bucket's entry. Returns nil if the entry is deleted. Also returns nil if the key is not a valid name: such an
    /// entry is not from a client of the fleet, and must not make the other records unreadable.
    init?(_ entry: KeyValueEntry, _ bucket: Bucket) {
        guard !entry.isDeleted, let name = RecordName(entry.key) else { return nil }
        self.init(key: RecordKey(bucket, name), entry)
    }

    /// A value that is too large is not from a client of the fleet. The record has its start with one byte too many, so its reader refuses it.
    fileprivate init(key: RecordKey, _ entry: KeyValueEntry) {
        self.init(
            key: key, revision: Revision(entry.revision),
            bytes: Array(entry.value.prefix(StoreLimits.recordBytes + 1)))
    }
}

extension StoreError {
    /// Creates the error of a store for an error of the connection to its server.
    public init(_ error: NATSError) {
        let code: Code =
            switch error.code {
            case .storeFull: .full
            case .tooLarge: .recordTooLarge
            case .corruptObject: .objectDamaged
            case .protocolError: .corrupt
            case .permissionDenied, .authorizationFailed: .accessRefused
            case .tlsFailed: .untrustedServer
            default: .unavailable
            }
        let hint: String? =
            switch error.code {
            case .noResponders, .notFound, .timedOut, .otherSettings:
                "check that JetStream runs and that the store was created, by this release of otaflash: otaflash fleet init --server URL"
            case .connectionFailed:
                "check that the server runs and that its address and port are right: --server nats://HOST:4222"
            case .noServerInformation:
                "check that the address is the address of a NATS server; if its tls block has 'handshake_first: true', use 'handshake_first: auto'"
            case .authorizationFailed:
                "give the credentials of a user of the NATS server: --credentials FILE"
            case .permissionDenied: "check this user's permissions in the configuration of the NATS server"
            case .tlsFailed:
                "give the certificate of the server's CA: --ca FILE.pem; the address must have the host name in the server's certificate"
            // Without a code of the server, the client refused the message, because the server accepts only shorter ones.
            case .tooLarge where error.serverCode == nil && error.cause != nil:
                "increase max_payload in the configuration of the NATS server to at least 256KB, and check it: otaflash fleet check --server URL"
            case .storeFull:
                "remove foreign records of devices: otaflash fleet clean; if it finds no such record, free space on the server's disk"
            default: nil
            }
        self.init(
            code, "the NATS store reported \(error.code.rawValue): \(error.message)", hint: hint, cause: error.cause)
    }
}
