import ChatProtocol
import Testing

@Suite("Chat: handshake")
struct HandshakeTests {
    private static let (alice, bob) = (PeerID(0xAABB_CCDD), PeerID(0x0102_0304))

    // These proofs were computed with Python's hmac.
    private static let centralProof: [UInt8] = [
        0x80, 0xDF, 0x9A, 0xA5, 0x5A, 0xC9, 0x9C, 0xB6, 0x68, 0xDB, 0x47, 0x33,
    ]
    private static let peripheralProof: [UInt8] = [
        0x38, 0x20, 0xCA, 0xFA, 0x06, 0xAA, 0xE8, 0x9B, 0xB2, 0xB4, 0xFB, 0xFE,
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
        let answer = try peripheral.receive(central.hello)
        #expect(answer == [peripheral.hello, .proof(Self.peripheralProof)])
        #expect(try central.receive(answer[0]) == [])
        #expect(try central.receive(answer[1]) == [.proof(Self.centralProof)])
        #expect(try peripheral.receive(.proof(Self.centralProof)) == [])
        #expect(central.authenticated == Self.alice && peripheral.authenticated == Self.bob)
        #expect(central.link == [0, 1, 2, 3] && peripheral.link == [0, 1, 2, 3])
        // Repeated frames have no effect.
        for frame in answer { #expect(try central.receive(frame) == []) }
        for frame in [central.hello, .proof(Self.centralProof)] { #expect(try peripheral.receive(frame) == []) }
    }

    @Test("a peer of another session fails in both roles")
    func refusesOtherSessions() throws {
        var (central, peripheral) = (Self.central("other"), Self.peripheral())
        let answer = try peripheral.receive(central.hello)
        _ = try central.receive(answer[0])
        #expect(throws: ChatError.otherSession) { try central.receive(answer[1]) }

        central = Self.central()
        _ = try central.receive(answer[0])
        #expect(throws: ChatError.otherSession) {
            try peripheral.receive(.proof([UInt8](repeating: 0, count: 12)))
        }
        #expect(central.authenticated == nil && peripheral.authenticated == nil)
    }

    @Test("an old proof, the own proof and the proof of the other role are refused")
    func refusesReplayedProofs() throws {
        var peripheral = Handshake(Session("public"), Self.alice, isCentral: false, nonce: Array(16..<24))
        let answer = try peripheral.receive(Self.central().hello)
        for proof in [.proof(Self.centralProof), answer[1]] {
            #expect(throws: ChatError.otherSession) { try peripheral.receive(proof) }
        }
        // A device that returns a peer's own frames is not a peer.
        var central = Self.central()
        #expect(throws: ChatError.malformedFrame) { try central.receive(central.hello) }
    }

    @Test("a peripheral accepts only the called peer, one hello, and no message before the proof")
    func refusesOtherFrames() throws {
        var peripheral = Self.peripheral()
        #expect(throws: ChatError.notExpected) { try peripheral.receive(Self.central().hello) { $0 == PeerID(7) } }
        #expect(throws: ChatError.malformedFrame) { try peripheral.receive(.proof(Self.centralProof)) }
        _ = try peripheral.receive(Self.central().hello)
        let other = Frame.hello(Self.bob, nonce: Array(1..<9))
        #expect(throws: ChatError.malformedFrame) { try peripheral.receive(other) }
        for frame in [.position(Position(1, 0)), .text(Position(1, 0), [0x41], isLast: true), .goodbye(1)] as [Frame] {
            #expect(throws: ChatError.otherSession) { try peripheral.receive(frame) }
        }
    }
}
