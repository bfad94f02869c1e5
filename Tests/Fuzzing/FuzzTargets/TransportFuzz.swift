import BlueZ
import DBus
import OTALinks
import OTASimulator

/// Parses device addresses. An accepted address must be equal after it is printed and parsed again.
enum AddressFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        let text = String(decoding: bytes, as: UTF8.self)
        if let address = try? VirtualDeviceAddress(parsing: text) {
            if !(23...517).contains(address.radio.mtu) { return "an MTU of \(address.radio.mtu)" }
            if let name = address.name, !VirtualDeviceStore.isName(name) { return "an invalid device name is accepted" }
        }
        if let address = BLEAddress(text), BLEAddress(address.description) != address {
            return "the parsed BLE address differs"
        }
        _ = BluetoothUUID(text)
        if let address = try? SerialAddress(parsing: text),
            (try? SerialAddress(parsing: address.description)) != address
        {
            return "the parsed serial address differs"
        }
        if let address = try? UDPAddress(parsing: text), (try? UDPAddress(parsing: address.description)) != address {
            return "the parsed UDP address differs"
        }
        return nil
    }
}

/// Decodes D-Bus messages, whose form libdbus has checked. The decoded values must be the same after encoding and decoding.
enum BusFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        guard let values = try? WireMessage.arguments(of: bytes) else { return nil }
        guard let again = try? WireMessage.bytes(of: values) else { return "the decoded values cannot be encoded" }
        guard let echoed = try? WireMessage.arguments(of: again) else { return "the encoded values cannot be decoded" }
        // The bytes are compared, too, because NaN is not equal to itself.
        return echoed == values || (try? WireMessage.bytes(of: echoed)) == again ? nil : "the decoded message differs"
    }
}

/// Decodes an answer of bluetoothd's ObjectManager and the later signals. Two bytes before each message have its length.
enum ObjectTreeFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        var tree = BlueZObjectTree()
        while !input.isEmpty {
            let count = Int(input.next()) << 8 | Int(input.next())
            guard let change = try? WireMessage.objectChange(of: input.bytes(upTo: count)) else { continue }
            _ = tree.apply(change)
            for (path, device) in tree.devices where path != device.path {
                return "a device has another path than its key"
            }
            for adapter in tree.adapterList {
                for device in tree.devices(of: adapter.path) {
                    _ = (tree.table(of: device.path), tree.mtu(of: device.path))
                }
            }
        }
        return nil
    }
}

/// Decodes the console of a serial line, which carries log lines and packets.
///
/// Every division of the bytes must give the same packets. After any bytes, the next packet must be decoded.
enum ConsoleFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let place = Int(input.next())
        let stream = input.bytes(upTo: bytes.count)
        var whole = ConsoleDecoder()
        var parts = ConsoleDecoder()
        let packets = whole.decode(stream)
        let pieces = stride(from: 0, to: stream.count, by: 1 + place).map { stream[$0...].prefix(1 + place) }
        guard pieces.flatMap({ parts.decode($0) }) == packets else {
            return "the packets differ with pieces of \(1 + place) bytes"
        }
        for packet in packets + [stream] {
            guard let lines = ConsoleFraming.lines(carrying: packet) else { return "a packet cannot be encoded" }
            _ = whole.decode([UInt8(ascii: "\n")])
            guard whole.decode(lines) == [packet] else { return "the packet after these bytes is lost" }
        }
        return spoilt(Array(stream.prefix(80)), at: place, by: bytes.last ?? 0)
    }

    /// One wrong byte in the line of a short packet may lose the packet, but must not produce another packet.
    private static func spoilt(_ packet: [UInt8], at place: Int, by byte: UInt8) -> String? {
        guard var lines = ConsoleFraming.lines(carrying: packet) else { return "a short packet cannot be encoded" }
        lines[place % lines.count] = byte
        var decoder = ConsoleDecoder()
        return [[], [packet]].contains(decoder.decode(lines)) ? nil : "a wrong byte produces another packet"
    }
}

/// Decodes COBS frames and packets without frames, and detects the framing of a serial line.
///
/// Every division of the bytes must give the same packets. After any bytes and a byte 0, the next COBS frame must be decoded.
enum SerialFramesFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        let length = 1 + Int(input.next())
        let stream = input.bytes(upTo: bytes.count)
        let pieces = stride(from: 0, to: stream.count, by: length).map { Array(stream[$0...].prefix(length)) }
        for framing in [SerialFraming.raw, .rawCOBS] {
            var (whole, parts) = (SerialDecoder(framing), SerialDecoder(framing))
            guard pieces.flatMap({ parts.decode($0) }) == whole.decode(Array(stream)) else {
                return "the packets differ with pieces of \(length) bytes"
            }
        }
        var cobs = COBSDecoder()
        _ = cobs.decode(Array(stream) + [0])
        guard !stream.isEmpty else { return nil }
        guard cobs.decode(COBSFraming.frame(carrying: Array(stream))) == [Array(stream)] else {
            return "the packet after these bytes is lost"
        }
        var detecting = SerialDecoder(nil)
        let packets = pieces.flatMap { detecting.decode($0) }
        return packets.isEmpty == (detecting.framing == nil) ? nil : "a packet in no framing"
    }
}
