import ChatProtocol
import Testing

@Suite("Chat: handshake")
struct HandshakeTests {
    private static let (alice, bob) = (PeerID(0xAABB_CCDD), PeerID(0x0102_0304))

    // These proofs were computed with Python's hmac.
    private static let centralProof: [UInt8] = [
        0x80, 0xDF, 0x9A, 0xA5, 0x5A, 0xC9, 0x9C, 0xB6, 0x68, 0xDB, 0x47, 0x33, 0x12, 0x5F, 0xFA, 0xEB,
    ]
    private static let peripheralProof: [UInt8] = [
        0x38, 0x20, 0xCA, 0xFA, 0x06, 0xAA, 0xE8, 0x9B, 0xB2, 0xB4, 0xFB, 0xFE, 0x67, 0x06, 0xE5, 0xBB,
    ]

    private static func central(_ session: String = "public") -> Handshake {
        Handshake(Session(session), bob, isCentral: true, nonce: Array(0..<8))
    }

    private static func peripheral(_ session: String = "public") -> Handshake {
        Handshake(Session(session), alice, isCentral: false, nonce: Array(8..<16))
    }

    @Test("two peers of a session authenticate each other")
    func authenticates() throws {
        var (central, peripheral) = (Self.central(), Self.peripheral())
        let answer = try peripheral.receive(central.hello, from: Self.bob)
        #expect(answer == [peripheral.hello, .proof(Self.peripheralProof)])
        #expect(try central.receive(answer[0], from: nil) == [])
        #expect(try central.receive(answer[1], from: nil) == [.proof(Self.centralProof)])
        #expect(try peripheral.receive(.proof(Self.centralProof), from: Self.bob) == [])
        #expect(central.authenticated == Self.alice && peripheral.authenticated == Self.bob)
    }

    @Test("a peer of another session fails in both roles")
    func refusesOtherSessions() throws {
        var (central, peripheral) = (Self.central("other"), Self.peripheral())
        let answer = try peripheral.receive(central.hello, from: nil)
        _ = try central.receive(answer[0], from: nil)
        #expect(throws: ChatError.otherSession) { try central.receive(answer[1], from: nil) }

        central = Self.central()
        _ = try central.receive(answer[0], from: nil)
        #expect(throws: ChatError.otherSession) {
            try peripheral.receive(.proof([UInt8](repeating: 0, count: 16)), from: nil)
        }
        #expect(central.authenticated == nil && peripheral.authenticated == nil)
    }

    @Test("an old proof, the own proof and the proof of the other role are refused")
    func refusesReplayedProofs() throws {
        var peripheral = Handshake(Session("public"), Self.alice, isCentral: false, nonce: Array(16..<24))
        let answer = try peripheral.receive(Self.central().hello, from: nil)
        for proof in [.proof(Self.centralProof), answer[1]] {
            #expect(throws: ChatError.otherSession) { try peripheral.receive(proof, from: nil) }
        }
        // A device that returns a peer's own frames is not a peer.
        var central = Self.central()
        #expect(throws: ChatError.malformedFrame) { try central.receive(central.hello, from: nil) }
    }

    @Test("a peripheral accepts only the called peer, one hello, and no message before the proof")
    func refusesOtherFrames() throws {
        var peripheral = Self.peripheral()
        #expect(throws: ChatError.notExpected) { try peripheral.receive(Self.central().hello, from: PeerID(7)) }
        #expect(throws: ChatError.malformedFrame) { try peripheral.receive(.proof(Self.centralProof), from: Self.bob) }
        _ = try peripheral.receive(Self.central().hello, from: Self.bob)
        #expect(throws: ChatError.malformedFrame) { try peripheral.receive(Self.central().hello, from: Self.bob) }
        for frame in [.position(Position(1, 0)), .text(Position(1, 0), [0x41], isLast: true), .goodbye] as [Frame] {
            #expect(throws: ChatError.otherSession) { try peripheral.receive(frame, from: Self.bob) }
        }
    }
}
