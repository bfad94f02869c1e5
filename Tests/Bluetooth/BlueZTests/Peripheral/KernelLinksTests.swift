import BlueZ
import Testing

@Suite("The kernel's list of links")
struct KernelLinksTests {
    /// The answer of HCIGETCONNLIST for two links: an LE link on which this machine is the peripheral, and one on which it is the central.
    /// The layout is from `include/net/bluetooth/hci_sock.h` of Linux 6.1.
    private static let answer: [UInt8] =
        [1, 0, 2, 0]
        + [0x40, 0, 0x42, 0, 0x01, 0x01, 0xAA, 0, 0x80, 0, 1, 0, 0, 0, 0, 0]
        + [0x41, 0, 0x43, 0, 0x01, 0x01, 0xAA, 0, 0x80, 1, 1, 0, 1, 0, 0, 0]

    private func opener(_ text: String, _ answer: [UInt8] = answer) throws -> LinkOpener {
        KernelLinks.opener(of: try #require(BluetoothAddress(text)), in: answer)
    }

    @Test("the role of this machine determines the opener of each link")
    func roles() throws {
        #expect(try opener("00:AA:01:01:00:42") == .central)
        #expect(try opener("00:AA:01:01:00:43") == .host)
        #expect(try opener("42:00:01:01:AA:00") == .unknown)
    }

    @Test("a BR/EDR link to the same device is ignored")
    func otherTransport() throws {
        var answer = Self.answer
        answer[12] = 1
        #expect(try opener("00:AA:01:01:00:42", answer) == .unknown)
    }

    @Test("an answer that is shorter than its number of links is read up to its end", arguments: 0...36)
    func short(length: Int) throws {
        var answer = Array(Self.answer.prefix(length))
        if length > 3 { answer[3] = 0xFF }
        #expect(try opener("00:AA:01:01:00:42", answer) == (length < 20 ? .unknown : .central))
        #expect(try opener("00:AA:01:01:00:43", answer) == (length < 36 ? .unknown : .host))
    }
}
