import DescriptorIO
import OTAFirmware
import OTASigning
public import OTAStore

/// The behaviour that each store must have, as a list of cases. The tests of a store run each case with a new store.
public struct StoreContract: Sendable {
    /// Two clients of one store, such as two connections to one server.
    public let first: any FleetStore
    public let second: any FleetStore
    /// The clock of the store; nil if the store uses a clock that a test cannot change.
    public let clock: ManualClock?

    public init(_ first: any FleetStore, _ second: any FleetStore, clock: ManualClock? = nil) {
        self.first = first
        self.second = second
        self.clock = clock
    }

    /// One test. It throws a ``Violation`` if the store does not have the behaviour.
    public struct Case: Sendable, CustomStringConvertible {
        /// The behaviour, as the name of a test.
        public let description: String
        public let run: @Sendable (StoreContract) async throws -> Void

        init(_ description: String, _ run: @escaping @Sendable (StoreContract) async throws -> Void) {
            self.description = description
            self.run = run
        }
    }

    /// All cases for a store without a clock of the test.
    public static let cases = recordCases + changeCases + objectCases + eventCases
    /// The cases for a store with a clock of the test.
    public static let ageCases = recordAgeCases + eventAgeCases
}

/// A difference between a store and the contract.
public struct Violation: Error, CustomStringConvertible {
    public let description: String
}

/// The wall clock of a test.
public final class ManualClock: Sendable {
    private let time = Guarded(StoreTime(milliseconds: 1_764_000_000_000))

    public init() {}

    public var now: StoreTime { time.with { $0 } }

    public func advance(by duration: Duration) {
        time.with { $0 = StoreTime(milliseconds: $0.milliseconds + Int64(duration / .milliseconds(1))) }
    }
}

/// Throws a violation if the two values differ.
func expect<Value: Equatable>(_ actual: Value, _ wanted: Value, _ what: String) throws(Violation) {
    guard actual == wanted else { throw Violation(description: "\(what): \(actual), expected \(wanted)") }
}

/// Throws a violation unless `body` throws a store error with this code.
func expect(_ code: StoreError.Code, _ what: String, _ body: () async throws -> Void) async throws {
    do {
        try await body()
    } catch let error as StoreError where error.code == code {
        return
    }
    throw Violation(description: "\(what): no error, expected \(code.rawValue)")
}

extension RecordKey {
    /// The key of a record in a test.
    ///
    /// - Throws: a violation if `name` is not valid.
    public static func of(_ bucket: Bucket, _ name: String) throws(Violation) -> RecordKey {
        guard let name = RecordName(name) else { throw Violation(description: "the name '\(name)' is not valid") }
        return RecordKey(bucket, name)
    }
}

extension FleetStore {
    /// Writes a record that must be written.
    func put(_ text: String, at key: RecordKey, expecting revision: Revision = .absent) async throws -> Revision {
        let outcome = try await write(Array(text.utf8), at: key, expecting: revision)
        guard case .written(let revision) = outcome else {
            throw Violation(description: "\(outcome) for the write of \(key)")
        }
        return revision
    }

    /// The text of a record; nil: the record does not exist.
    func text(_ key: RecordKey) async throws -> String? {
        try await read(key).map { String(decoding: $0.bytes, as: UTF8.self) }
    }
}
