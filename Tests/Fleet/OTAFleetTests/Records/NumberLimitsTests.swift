import OTAFleet
import OTASigning
import Testing

@Suite("Limits of the numbers in records") struct NumberLimitsTests {
    /// A member of a record, the last accepted values, and the values next to them.
    struct Member: Sendable, CustomStringConvertible {
        let member: String
        let accepted: [Int]
        let refused: [Int]

        var description: String { member }

        init(_ member: String, _ accepted: [Int], _ refused: [Int]) {
            (self.member, self.accepted, self.refused) = (member, accepted, refused)
        }

        /// Returns the text with another value of the member.
        func set(_ value: Int, in text: String) throws -> [UInt8] {
            let start = try #require(text.ranges(of: "\"\(member)\":").first?.upperBound, "\(member) in \(text)")
            let end = try #require(text[start...].firstIndex { !$0.isNumber })
            return Array((text[..<start] + "\(value)" + text[end...]).utf8)
        }
    }

    @Test(
        "a rollout with a number at its limit is accepted, and a rollout with the next number is refused",
        arguments: [
            Member("serial", [1, 1 << 53 - 1], [0, 1 << 53]), Member("percent", [1, 100], [0, 101]),
            Member("success_percent", [0, 100], [-1, 101]), Member("minimum", [1, 1_000_000], [0, 1_000_001]),
            Member("soak_seconds", [0, 31_536_000], [-1, 31_536_001]), Member("failed_percent", [0, 100], [-1, 101]),
            Member("attempts", [1, 1000], [0, 1001]),
        ])
    func rollout(_ member: Member) throws {
        let text = try String(decoding: Fixtures().rollout().payload(), as: UTF8.self)
        for value in member.accepted { _ = try Rollout(payload: member.set(value, in: text)) }
        for value in member.refused {
            #expect(throws: FleetError(.malformed, ""), "\(value)") {
                try Rollout(payload: member.set(value, in: text))
            }
        }
    }

    @Test("a halt accepts 0 to 100 % and a minimum of 1 to 1,000,000 devices")
    func halt() {
        func isValid(_ percent: Int, _ minimum: Int) -> Bool {
            Rollout.Halt(failedPercent: percent, minimum: minimum) != nil
        }
        #expect(isValid(0, 1) && isValid(100, 1_000_000))
        #expect(!isValid(-1, 1) && !isValid(101, 1) && !isValid(5, 0) && !isValid(5, 1_000_001))
    }

    @Test("a rollout has 1 to 16 stages and 1 to 8 controllers, and expires after its creation")
    func counts() throws {
        let fixtures = try Fixtures()
        let release = try fixtures.release()
        let stage = try #require(Stage(.percent(100)))
        func isValid(stages: Int = 1, controllers: Int = 1, lifetime: Int64 = 1) throws -> Bool {
            let halt = try #require(Rollout.Halt(failedPercent: 5, minimum: 1))
            do throws(FleetError) {
                _ = try Rollout(
                    name: fixtures.name, release: release, selection: Selection(product: fixtures.product),
                    stages: Array(repeating: stage, count: stages), halt: halt, attempts: 1,
                    enrolment: Enrolment(.bluetooth, .none), salt: Array(repeating: 0, count: 16),
                    controllers: Array(repeating: fixtures.controllerKey.publicKey, count: controllers),
                    created: fixtures.created, expires: fixtures.created.advanced(by: lifetime))
                return true
            } catch {
                #expect(error.code == .badChange)
                return false
            }
        }
        #expect(try isValid() && isValid(stages: 16) && isValid(controllers: 8))
        #expect(try !isValid(stages: 0) && !isValid(stages: 17) && !isValid(controllers: 0))
        #expect(try !isValid(controllers: 9) && !isValid(lifetime: 0))
    }

    private static let progress = """
        {"schema":1,"rollout":"t-140","serial":1,"rollout_serial":1,"state":"running","stage":0,\
        "counts":{"done":0,"running":0,"failed":0,"refused":0,"waiting":0}}
        """

    @Test(
        "a progress with a number at its limit is accepted, and a progress with the next number is refused",
        arguments: [
            Member("serial", [1, 1 << 53 - 1], [0, 1 << 53]),
            Member("rollout_serial", [1, 1 << 53 - 1], [0, 1 << 53]), Member("stage", [0, 15], [-1, 16]),
            Member("done", [0, 1 << 31 - 1], [-1, 1 << 31]),
        ])
    func progress(_ member: Member) throws {
        for value in member.accepted { _ = try RolloutProgress(payload: member.set(value, in: Self.progress)) }
        for value in member.refused {
            #expect(throws: FleetError(.malformed, ""), "\(value)") {
                try RolloutProgress(payload: member.set(value, in: Self.progress))
            }
        }
    }

    @Test("a progress in the last stage of its rollout is accepted, and a progress after it is refused")
    func lastStage() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        func progress(in stage: Int) throws -> Verified<RolloutProgress> {
            let payload = try Member("stage", [], []).set(stage, in: Self.progress)
            return try fixtures.verified(RolloutProgress(payload: payload), of: rollout)
        }
        #expect(try progress(in: 2).value.stage == 2)
        #expect(throws: FleetError(.malformed, "")) { try progress(in: 3) }
    }

    @Test(
        "a device record with a number at its limit is accepted, and a record with the next number is refused",
        arguments: [
            Member("attempt", [1, 1 << 31 - 1], [0, 1 << 31]), Member("beat", [0, 1 << 31 - 1], [-1, 1 << 31]),
            Member("retry_after", [0, 1 << 31 - 1], [-1, 1 << 31]),
        ])
    func device(_ member: Member) throws {
        let text = """
            {"schema":1,"device":"sim-1","rollout":"t-140","rollout_created":"2026-11-22T18:00:00Z","state":"running",\
            "attempt":2,"interrupted_attempts":3,"gateway":"a","instance":"00000001","beat":1,"retry_after":60}
            """
        #expect(try DeviceRecord(parsing: Array(text.utf8)).interruptedAttempts == 2, "at most all attempts")
        for value in member.accepted { _ = try DeviceRecord(parsing: member.set(value, in: text)) }
        for value in member.refused {
            #expect(throws: FleetError(.malformed, ""), "\(value)") {
                try DeviceRecord(parsing: member.set(value, in: text))
            }
        }
    }

    @Test(
        "the serial of an abort is the time in seconds, and at least the next serial",
        arguments: [(1, 2), (2, 2), (3, 3), (1_795_370_400, 1_795_370_400)] as [(Int64, Int)])
    func abort(seconds: Int64, serial: Int) throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        let record = try fixtures.operators.change(
            rollout, to: .aborted, at: Timestamp(seconds: seconds), with: fixtures.operatorKey)
        #expect(try fixtures.operators.rollout(record.encoded()).value.serial == serial)
    }

    @Test("a signed record has 1 to 8 signatures")
    func signatures() throws {
        let fixtures = try Fixtures()
        let text = try String(
            decoding: SignedRecord(signing: fixtures.rollout(), with: fixtures.operatorKey).encoded(), as: UTF8.self)
        let start = try #require(text.ranges(of: #""signatures":["#).first?.upperBound)
        let signature = String(text[start...].dropLast(2))
        func record(of count: Int) throws -> SignedRecord {
            let list = Array(repeating: signature, count: count).joined(separator: ",")
            return try SignedRecord(parsing: Array((text[..<start] + list + "]}").utf8))
        }
        #expect(try record(of: 1).signatures.count == 1 && record(of: 8).signatures.count == 8)
        for count in [0, 9] { #expect(throws: FleetError(.malformed, "")) { try record(of: count) } }
    }

    @Test("a serial of 1 in the memory of serials is accepted, and 0 is refused")
    func memory() throws {
        func memory(_ serial: Int) throws -> SerialMemory {
            try SerialMemory(parsing: Array("rollout t-140 \(serial) \(String(repeating: "0", count: 64))\n".utf8))
        }
        _ = try memory(1)
        #expect(throws: FleetError(.malformed, "")) { try memory(0) }
    }
}
