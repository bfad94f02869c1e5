import DescriptorIO
import OTAFirmware
import OTAFleetCommands
import OTAStore
import Testing

@Suite("Access of a gateway or controller to its store") struct StoreAccessTests {
    private static let refused = StoreError(.accessRefused, "no", hint: nil)

    @Test("operations that the store refuses for 5 minutes end the command, and a success or another error does not")
    func patience() {
        let start = ContinuousClock.now
        func access(_ answers: [(seconds: Int, operation: String, error: StoreError?)]) -> StoreError? {
            let access = StoreAccess()
            for answer in answers {
                access.answered(answer.operation, answer.error, at: start + .seconds(answer.seconds))
            }
            return access.end
        }
        let refusals = (0...5).map { (seconds: $0 * 60, operation: "write devices", error: Optional(Self.refused)) }
        #expect(access(refusals)?.code == .accessRefused)
        #expect(access(refusals)?.context.contains("has refused 'write devices' for 5 minutes") == true)
        #expect(access(refusals)?.hint?.contains("correct the permissions") == true)
        #expect(access(Array(refusals.dropLast())) == nil)
        #expect(access(refusals + [(30, "read rollouts", nil)]) != nil, "another operation")
        var corrected = refusals
        corrected[3].error = nil
        #expect(access(corrected) == nil)
        corrected = refusals
        corrected.removeSubrange(1...3)
        #expect(access(corrected) == nil, "a pause of 4 minutes")
        #expect(access(refusals.map { ($0.seconds, $0.operation, StoreError(.unavailable, "")) }) == nil)
    }

    @Test("a refused first presence ends the command at once, and a later refusal or an absent server does not")
    func presence() throws {
        let desk = try #require(RecordName("desk"))
        func access(_ answers: StoreError?...) -> StoreError? {
            let access = StoreAccess()
            for answer in answers { access.wrotePresence(of: desk, answer) }
            return access.end
        }
        let absent = StoreError(.unavailable, "away")
        #expect(access(absent, Self.refused)?.code == .accessRefused)
        #expect(access(Self.refused)?.context.contains("may not write as the gateway 'desk'") == true)
        #expect(access(Self.refused)?.hint?.contains("--credentials gateway-desk.nk; or the name that belongs") == true)
        #expect(access(absent, absent) == nil)
        #expect(access(absent, nil, Self.refused) == nil)
    }

    @Test("a refused read or write of a record counts, also of the gateway's own one, and a refused event does not")
    func operations() async throws {
        let name = try #require(RecordName("a"))
        let key = { (bucket: Bucket) in RecordKey(bucket, name) }
        let event = FleetEvent(rollout: name, device: name, gateway: name, attempt: 1, kind: name, bytes: [])
        let calls: [(count: Int, body: (MeasuredStore) async throws -> Void)] = [
            (1, { _ = try await $0.write([1], at: key(.devices), expecting: .absent) }),
            (1, { _ = try await $0.read(key(.progress)) }), (1, { _ = try await $0.records(in: .rollouts) }),
            (1, { _ = try await $0.write([1], at: key(.gateways), expecting: .absent) }),
            (0, { _ = try await $0.read(key(.gateways)) }), (0, { try await $0.append(event) }),
        ]
        for call in calls {
            let access = StoreAccess(patience: .zero)
            let store = MeasuredStore(
                store: RefusingStore(), metrics: Guarded(FleetMetrics(isGateway: true, isController: false)),
                access: access)
            await #expect(throws: Self.refused) { try await call.body(store) }
            #expect((access.end != nil) == (call.count == 1))
        }
    }
}

/// A store that refuses each operation of its user.
private struct RefusingStore: FleetStore {
    private static let error = StoreError(.accessRefused, "no")

    func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? { throw Self.error }
    func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] { throw Self.error }
    func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome { throw Self.error }
    func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result { throw Self.error }
    func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) { throw Self.error }
    func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? { throw Self.error }
    func append(_ event: FleetEvent) async throws(StoreError) { throw Self.error }
    func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] { throw Self.error }
}
