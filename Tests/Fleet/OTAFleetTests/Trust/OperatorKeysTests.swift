import OTAFirmware
import OTAFleet
import OTASigning
import Testing

@Suite("Signed records") struct OperatorKeysTests {
    private static func openSSL() throws -> (operators: OperatorKeys, rollout: Verified<Rollout>) {
        let operators = OperatorKeys(try TrustStore([PublicKey(bytes: OpenSSLRecords.operatorKey)]))
        return (operators, try operators.rollout(Array(OpenSSLRecords.rollout.utf8)))
    }

    @Test("a rollout that openssl signed is accepted, with all its values")
    func openSSLRollout() throws {
        let rollout = try Self.openSSL().rollout
        #expect(rollout.signers.map(\.description) == ["56475aa75463474c"])
        let plan = rollout.value
        #expect(plan.name.text == "t-140" && plan.serial == 3 && plan.state == .running && plan.attempts == 3)
        #expect(plan.release.text == "05b3abf2579a5eb6")
        #expect(plan.manifestDigest == SHA256.digest(of: Array("manifest".utf8)))
        #expect(plan.selection.running?.description == "<1.4.0" && plan.selection.groups.isEmpty)
        #expect(plan.stages.map(\.audience) == [.percent(1), .percent(10), .percent(100)])
        #expect(plan.stages[0].minimum == 20 && plan.stages[0].soakSeconds == 3600 && plan.stages[1].minimum == 1)
        #expect(plan.halt.failedPercent == 5 && plan.halt.minimum == 10)
        #expect(plan.controllers.map(\.bytes) == [OpenSSLRecords.controllerKey])
        let hall = try #require(DeviceID("sim-hall"))
        let list = try #require(EnrolledDevices([hall]))
        #expect(plan.enrolment == Enrolment(.all, list) && plan.salt == Array(0..<16))
        #expect(plan.created.description == "2026-11-22T18:00:00Z")
    }

    @Test("progress that openssl signed with the key of a controller is accepted")
    func openSSLProgress() throws {
        let progress = try OperatorKeys.progress(Array(OpenSSLRecords.progress.utf8), of: Self.openSSL().rollout)
        #expect(progress.value.serial == 41 && progress.value.rolloutSerial == 3 && progress.value.stage == 1)
        #expect(progress.value.counts.done == 94 && progress.value.counts.ended == 94)
    }

    @Test("this project signs the same bytes as openssl")
    func sameSignature() throws {
        let parsed = try SignedRecord(parsing: Array(OpenSSLRecords.rollout.utf8))
        let rollout = try Self.openSSL().rollout.value
        let own = try SignedRecord(signing: rollout, with: Fixtures.key(0))
        #expect(own.payload == parsed.payload && own.signatures == parsed.signatures)
        #expect(try own.encoded() == Array(OpenSSLRecords.rollout.utf8))
    }

    @Test("a signed record with any one byte changed is refused", arguments: [UInt8(0x01), 0x20, 0x80])
    func anyByte(mask: UInt8) throws {
        let (operators, rollout) = try Self.openSSL()
        for index in OpenSSLRecords.rollout.utf8.count.indices {
            var bytes = Array(OpenSSLRecords.rollout.utf8)
            bytes[index] ^= mask
            #expect(throws: FleetError.self, "byte \(index)") { try operators.rollout(bytes) }
        }
        for index in OpenSSLRecords.progress.utf8.count.indices {
            var bytes = Array(OpenSSLRecords.progress.utf8)
            bytes[index] ^= mask
            #expect(throws: FleetError.self, "byte \(index)") { try OperatorKeys.progress(bytes, of: rollout) }
        }
    }

    @Test("a record that ends early is refused at every length")
    func anyLength() throws {
        let operators = try Self.openSSL().operators
        for count in OpenSSLRecords.rollout.utf8.count.indices {
            #expect(throws: FleetError(.malformed, "")) {
                try operators.rollout(Array(OpenSSLRecords.rollout.utf8.prefix(count)))
            }
        }
    }

    @Test("a signature over another kind is refused, although the payload is the same")
    func otherKind() throws {
        let fixtures = try Fixtures()
        let release = try fixtures.release()
        // A record of the kind `rollout` with the payload and the signature of a release.
        let record = try SignedRecord(signing: release.value, with: fixtures.operatorKey).encoded()
        let text = String(decoding: record, as: UTF8.self).replacing(
            #""release","payload""#, with: #""rollout","payload""#)
        let error = #expect(throws: FleetError.self) { try fixtures.operators.rollout(Array(text.utf8)) }
        #expect(error?.code == .untrusted)
        #expect(
            error?.context == "the rollout is not signed by an operator's key; its signature by "
                + "\(fixtures.operatorKey.publicKey.id) is invalid")
        #expect(error?.hint?.contains("otaflash fleet check") == true)
        #expect(throws: FleetError(.malformed, "")) { try fixtures.operators.rollout(record) }
    }

    @Test("a rollout that a stranger or a controller signed is refused")
    func strangers() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.rollout()
        for key in [fixtures.strangerKey, fixtures.controllerKey] {
            let record = try SignedRecord(signing: rollout, with: key).encoded()
            #expect(throws: FleetError(.untrusted, "")) { try fixtures.operators.rollout(record) }
        }
    }

    @Test("progress of a stranger, of an operator and of another rollout is refused")
    func foreignProgress() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        let other = try fixtures.verified(fixtures.rollout("other"))
        var machine = StageMachine(rollout, progress: nil, memory: SerialMemory())
        let step = machine.step([], in: .none, at: .at(0))
        let progress = try #require(step)
        #expect(try fixtures.verified(progress, of: rollout).value == progress)
        for key in [fixtures.strangerKey, fixtures.operatorKey] {
            let record = try SignedRecord(signing: progress, with: key).encoded()
            #expect(throws: FleetError(.untrusted, "")) { try OperatorKeys.progress(record, of: rollout) }
        }
        #expect(throws: FleetError(.untrusted, "")) { try fixtures.verified(progress, of: other) }
    }

    @Test(
        "progress in a stage that the rollout does not have is refused, although a controller of the rollout signed it",
        arguments: ["-1", "3", "15", "16", "9223372036854775807"])
    func impossibleStage(stage: String) throws {
        struct Payload: SignedPayload {
            static let kind = SignedRecord.Kind.progress
            let scopeProduct: ProductName? = nil
            let bytes: [UInt8]
            init(payload: [UInt8]) { bytes = payload }
            func payload() -> [UInt8] { bytes }
        }
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        #expect(rollout.value.stages.count == 3)
        func progress(in stage: String) throws -> Verified<RolloutProgress> {
            let payload = """
                {"schema":1,"rollout":"\(fixtures.name)","serial":1,"rollout_serial":1,"state":"running","stage":\(stage),\
                "counts":{"done":0,"running":0,"failed":0,"refused":0,"waiting":0}}
                """
            let record = try SignedRecord(signing: Payload(payload: Array(payload.utf8)), with: fixtures.controllerKey)
            return try OperatorKeys.progress(record.encoded(), of: rollout)
        }
        #expect(try progress(in: "2").value.stage == 2)
        #expect(throws: FleetError(.malformed, "")) { try progress(in: stage) }
    }

    @Test("one valid signature of a trusted key suffices, and other signatures are ignored")
    func severalSignatures() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.rollout()
        func signature(_ key: PrivateKey) throws -> String {
            let text = try String(decoding: SignedRecord(signing: rollout, with: key).encoded(), as: UTF8.self)
            return String(try #require(text.split(separator: "[").last).dropLast(2))
        }
        let own = try SignedRecord(signing: rollout, with: fixtures.operatorKey).encoded()
        let text = String(decoding: own, as: UTF8.self)
        let both = text.replacing(#""signatures":["#, with: #""signatures":[\#(try signature(fixtures.strangerKey)),"#)
        #expect(try fixtures.operators.rollout(Array(both.utf8)).signers == [fixtures.operatorKey.publicKey.id])
        let nine = text.replacing(
            #""signatures":["#,
            with: #""signatures":["# + String(repeating: try signature(fixtures.strangerKey) + ",", count: 8))
        #expect(throws: FleetError.self) { try fixtures.operators.rollout(Array(nine.utf8)) }
    }

    @Test("pause, resume and abort sign the next version of a verified rollout, and an aborted rollout stays aborted")
    func changes() throws {
        let fixtures = try Fixtures()
        var current = try fixtures.verified(fixtures.rollout())
        for (index, state) in [Rollout.State.paused, .running, .running, .aborted].enumerated() {
            let record = try fixtures.operators.change(current, to: state, with: fixtures.operatorKey)
            current = try fixtures.operators.rollout(record.encoded())
            #expect(current.value.state == state && current.value.serial == index + 2)
            #expect(current.value.stages == (try fixtures.rollout()).stages)
        }
        for state in Rollout.State.allCases {
            #expect(throws: FleetError(.badChange, "")) {
                try fixtures.operators.change(current, to: state, with: fixtures.operatorKey)
            }
        }
    }

    @Test("a change or a new record with a key that is not an operator's is refused before it is written")
    func foreignChange() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        #expect(throws: FleetError(.untrusted, "")) {
            try fixtures.operators.change(rollout, to: .paused, with: fixtures.strangerKey)
        }
        #expect(throws: FleetError(.untrusted, "")) {
            try fixtures.operators.withdraw(fixtures.release(), with: fixtures.strangerKey)
        }
        #expect(throws: FleetError(.untrusted, "")) {
            try fixtures.operators.sign(fixtures.rollout(), with: fixtures.controllerKey)
        }
    }

    @Test("a change keeps the members of a plan that this version does not know")
    func unknownMembers() throws {
        let fixtures = try Fixtures()
        let payload = try String(decoding: fixtures.rollout().payload(), as: UTF8.self)
            .replacing(#""attempts""#, with: #""windows":["22:00"],"attempts""#)
        let rollout = try Rollout(payload: Array(payload.utf8))
        let verified = try fixtures.verified(rollout)
        let record = try fixtures.operators.change(verified, to: .paused, with: fixtures.operatorKey)
        #expect(String(decoding: record.payload, as: UTF8.self).contains(#""windows":["22:00"],"attempts""#))
    }

    @Test("a signer that returns a wrong signature is an error, not a record")
    func faultySigner() throws {
        struct Faulty: Signer {
            let publicKey: PublicKey
            func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
                [UInt8](repeating: 7, count: 64)
            }
        }
        let fixtures = try Fixtures()
        #expect(throws: FleetError(.signingFailed, "")) {
            try fixtures.operators.sign(fixtures.rollout(), with: Faulty(publicKey: fixtures.operatorKey.publicKey))
        }
    }
}

extension Int {
    fileprivate var indices: Range<Int> { 0..<self }
}
