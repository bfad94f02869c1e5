import COTADevice
import Testing

/// The algorithms of the trusted keys, of the entries, and of the policy. `ota_port.verify` answers for ML-DSA (`SigningKey`).
@Suite("Algorithms of signatures in the device core") struct AlgorithmPolicyTests {
    private static let ed25519 = [SigningKey.rfc8032, .second]
    private static let mlDSA44 = ["a", "b"].map { SigningKey(substituteFor: 2, name: $0) }
    private static let mlDSA65 = SigningKey(substituteFor: 3, name: "c")

    /// The entry of a key in an envelope.
    private enum Entry: CaseIterable {
        case missing, valid
        /// The signature has one wrong bit.
        case wrong
        /// The entry has the id of the key, but another algorithm, and a valid length.
        case swapped
        /// The entry has the id of the key and an unknown algorithm.
        case unknown

        func bytes(_ key: SigningKey, _ manifest: [UInt8]) -> [UInt8] {
            var entry = key.entry(manifest)
            switch self {
            case .missing: return []
            case .valid: return entry
            case .wrong:
                entry[entry.count - 1] ^= 1
                return entry
            case .swapped:
                var other = SigningKey(substituteFor: key.algorithm == 1 ? 2 : 3, name: "swapped").entry(manifest)
                other.replaceSubrange(4..<12, with: key.id)
                return other
            case .unknown: return [0x80, 0, 64, 0] + key.id + [UInt8](repeating: 0, count: 64)
            }
        }
    }

    private struct Policy: CustomTestStringConvertible {
        var algorithms: [UInt8]
        var signatures: UInt8

        var testDescription: String { "algorithms \(algorithms), \(signatures) signatures" }

        /// The rule of docs/ota-profile.md. `counts` has the number of valid signatures of each algorithm.
        func accepts(_ counts: [UInt8: Int]) -> Bool {
            let required = max(1, Int(signatures))
            return algorithms.isEmpty
                ? counts.values.contains { $0 >= required }
                : algorithms.allSatisfy { counts[$0, default: 0] >= required }
        }
    }

    private static func bench(_ policy: Policy, _ keys: [SigningKey]) -> Bench {
        var settings = Settings()
        settings.keys = keys
        settings.requiredSignatures = policy.signatures
        settings.requiredAlgorithms = policy.algorithms.reduce(0) { $0 | 1 << $1 }
        settings.largestEnvelope = UInt16(OTA_ENVELOPE_LARGEST)
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        return bench
    }

    private static func envelope(_ entries: [(SigningKey, Entry)]) -> [UInt8] {
        let manifest = BenchRelease().manifest
        let present = entries.filter { $0.1 != .missing }.sorted { $0.0.id.lexicographicallyPrecedes($1.0.id) }
        return manifest + [UInt8(present.count), 0, 0, 0] + present.flatMap { $0.1.bytes($0.0, manifest) }
    }

    /// All combinations of the entries of up to four trusted keys.
    @Test(
        "each combination of missing, valid, wrong, swapped and unknown entries has the status of the policy",
        arguments: [[], [1], [2], [1, 2]] as [[UInt8]], [0, 1, 2] as [UInt8])
    func combinations(_ algorithms: [UInt8], _ signatures: UInt8) {
        let policy = Policy(algorithms: algorithms, signatures: signatures)
        let keys = signatures == 2 ? Self.ed25519 + Self.mlDSA44 : [Self.ed25519[0], Self.mlDSA44[0], Self.mlDSA65]
        let bench = Self.bench(policy, keys)
        let kinds = Entry.allCases
        var accepted = 0
        for number in 1..<(0..<keys.count).reduce(1, { count, _ in count * kinds.count }) {
            var rest = number
            var entries: [(SigningKey, Entry)] = []
            for key in keys {
                entries.append((key, kinds[rest % kinds.count]))
                rest /= kinds.count
            }
            var counts: [UInt8: Int] = [:]
            for (key, entry) in entries where entry == .valid { counts[key.algorithm, default: 0] += 1 }
            let isTrusted = entries.allSatisfy { $0.1 == .missing || $0.1 == .valid } && policy.accepts(counts)
            let status = bench.submit(Self.envelope(entries))
            #expect(status == (isTrusted ? OTA_OK : OTA_UNTRUSTED), "\(entries.map(\.1))")
            accepted += isTrusted ? 1 : 0
        }
        #expect(accepted > 0)
        // The core has never passed a signature of another algorithm than the key's to `verify`, and changed no flash.
        #expect(bench.log.isEmpty)
        #expect(!bench.flash.operations.contains { $0.hasPrefix("erase slot") || $0.hasPrefix("write slot") })
    }

    @Test("a hybrid device refuses a bundle with one of the two signatures before the first erase")
    func downgrade() {
        let keys = [Self.ed25519[0], Self.mlDSA65]
        let bench = Self.bench(Policy(algorithms: [1, 3], signatures: 1), keys)
        let operations = bench.flash.operations
        for key in keys {
            #expect(bench.submit(BenchRelease(signers: [key]).envelope) == OTA_UNTRUSTED)
            #expect(bench.submit(BenchRelease(signers: [key, .stranger]).envelope) == OTA_UNTRUSTED)
            #expect(bench.begin(OTA_OBJECT_IMAGE, BenchRelease().image) == nil)
        }
        // Too few signatures are refused before one is verified.
        #expect(bench.verifications == 0)
        #expect(bench.flash.operations == operations)
        #expect(bench.submit(BenchRelease(signers: keys).envelope) == OTA_OK)
    }

    @Test("two entries with the same key id are malformed, also with two algorithms")
    func repeated() {
        let (key, manifest) = (Self.mlDSA44[0], BenchRelease().manifest)
        let bench = Self.bench(Policy(algorithms: [], signatures: 1), [key])
        let valid = key.entry(manifest)
        for second in [valid, Entry.swapped.bytes(key, manifest), Entry.unknown.bytes(key, manifest)] {
            #expect(bench.submit(manifest + [2, 0, 0, 0] + valid + second) == OTA_MALFORMED)
            #expect(bench.submit(manifest + [2, 0, 0, 0] + second + valid) == OTA_MALFORMED)
        }
        #expect(bench.verifications == 0)
    }

    @Test("entries of unknown algorithms and of unknown keys are skipped")
    func skipped() {
        let key = Self.ed25519[0]
        let bench = Self.bench(Policy(algorithms: [1], signatures: 1), [key])
        let manifest = BenchRelease().manifest
        let unknown: [[UInt8]] = [0, 5, 255].map { algorithm in
            [algorithm, 0] + little(UInt16(8000)) + [UInt8](repeating: 255 - algorithm, count: 8)
                + [UInt8](repeating: algorithm, count: 8000)
        }
        let entries = ([key.entry(manifest), Self.mlDSA65.entry(manifest)] + unknown)
            .sorted { $0[4..<12].lexicographicallyPrecedes($1[4..<12]) }
        #expect(bench.submit(manifest + [5, 0, 0, 0] + entries.flatMap { $0 }) == OTA_OK)
        #expect(bench.verifications == 1)
    }

    @Test("one poll verifies at most one signature")
    func polls() throws {
        let keys = Self.ed25519 + Self.mlDSA44
        let bench = Self.bench(Policy(algorithms: [1, 2], signatures: 2), keys)
        let envelope = BenchRelease(signers: keys + [.stranger]).envelope
        bench.send(envelope, at: try #require(bench.begin(OTA_OBJECT_ENVELOPE, envelope)))
        _ = bench.heard(OTA_CONTROL)
        #expect(ota_device_write_control(bench.device, 1, [UInt8(OTA_FINISH.rawValue), 9], 2, bench.now) == OTA_ATT_OK)
        var verified: [Int] = []
        while bench.heard(OTA_CONTROL).isEmpty, verified.count < 20 {
            // The core is busy for other requests, so nothing can change the envelope between two polls.
            let begin = [UInt8(OTA_BEGIN.rawValue), 8] + Bench.beginArguments(OTA_OBJECT_ENVELOPE, envelope)
            #expect(ota_device_write_control(bench.device, 1, begin, UInt16(begin.count), bench.now) == OTA_ATT_OK)
            #expect(bench.heard(OTA_CONTROL) == [[0x81, 8, UInt8(OTA_BUSY.rawValue)]])
            let before = bench.verifications
            _ = ota_device_poll(bench.device, bench.now)
            verified.append(bench.verifications - before)
        }
        #expect(verified.filter { $0 > 0 } == [1, 1, 1, 1])
        #expect(bench.state == OTA_STATE_ACCEPTED)
    }

    @Test(
        "a connection that ends between two signatures ends the check, and the next check starts from its first signature"
    )
    func interrupted() throws {
        let keys = Self.ed25519
        let bench = Self.bench(Policy(algorithms: [], signatures: 2), keys)
        let envelope = BenchRelease(signers: keys).envelope
        bench.send(envelope, at: try #require(bench.begin(OTA_OBJECT_ENVELOPE, envelope)))
        #expect(ota_device_write_control(bench.device, 1, [UInt8(OTA_FINISH.rawValue), 9], 2, bench.now) == OTA_ATT_OK)
        while bench.verifications == 0 { _ = ota_device_poll(bench.device, bench.now) }
        bench.reconnect()
        #expect(bench.state == OTA_STATE_IDLE)
        #expect(bench.submit(envelope) == OTA_OK)
        #expect(bench.verifications == 3)
    }

    @Test(
        "an envelope as long as the buffer is received, and a longer one is refused",
        arguments: [158, 169, 4000, 65124])
    func largestEnvelope(_ largest: UInt16) {
        var settings = Settings()
        settings.largestEnvelope = largest
        let bench = Bench(settings)
        bench.boot()
        bench.connect()
        func begin(_ size: UInt32) -> [UInt8] {
            bench.request(UInt8(OTA_BEGIN.rawValue), [1] + little(size) + [UInt8](repeating: 0, count: 12))
        }
        #expect(begin(UInt32(largest)).first == 0)
        #expect(begin(UInt32(largest) + 1) == [UInt8(OTA_BAD_ARGUMENT.rawValue)])
        #expect(begin(UInt32(largest) + 65536) == [UInt8(OTA_BAD_ARGUMENT.rawValue)])
    }
}
