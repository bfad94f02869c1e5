/// The fields of one message in the wire format of Protocol Buffers (protobuf.dev, "Encoding").
///
/// The parser refuses an encoding that two programs could read differently: a field twice, a number in more bytes than necessary, a group,
/// and a length after the end. It reads no schema: the caller asks for the fields that it knows.
struct ProtobufMessage {
    private enum Value {
        /// Wire type 0.
        case number(UInt64)
        /// Wire type 2: bytes, a text, a message or packed numbers.
        case bytes(ArraySlice<UInt8>)
        /// Wire type 1 or 5: 8 or 4 bytes. No field of Nordic's messages has such a value.
        case fixed
    }

    private static let largestFieldNumber: UInt64 = 536_870_911

    /// The name of the message in errors.
    private let name: String
    private var fields: [(number: UInt64, value: Value)] = []

    /// Parses a message.
    ///
    /// - Parameter repeated: the numbers of the fields that may occur several times.
    /// - Throws: `bad-init-packet`.
    init(_ bytes: ArraySlice<UInt8>, _ name: String, repeated: Set<UInt64> = []) throws(PackageError) {
        self.name = name
        var reader = ByteReader(bytes)
        var seen: Set<UInt64> = []
        while reader.remaining > 0 {
            let key = try number(&reader)
            let field = key >> 3
            guard field > 0, field <= Self.largestFieldNumber else { throw malformed("has the field number \(field)") }
            guard seen.insert(field).inserted || repeated.contains(field) else {
                throw malformed("has the field \(field) twice")
            }
            fields.append((field, try value(ofType: key & 7, &reader)))
        }
    }

    /// Returns the value of a field of the type uint32 or enum; nil if the message does not have the field.
    func number(_ field: UInt64) throws(PackageError) -> UInt32? {
        guard let value = fields.first(where: { $0.number == field })?.value else { return nil }
        guard case .number(let number) = value else { throw malformed("has no number in the field \(field)") }
        guard let number = UInt32(exactly: number) else {
            throw malformed("has the number \(number) in the field \(field); expected at most \(UInt32.max)")
        }
        return number
    }

    /// Returns the value of a field that is bytes or a message; nil if the message does not have the field.
    func bytes(_ field: UInt64) throws(PackageError) -> ArraySlice<UInt8>? { try allBytes(field).first }

    /// Returns all values of a repeated field that is bytes or a message.
    func allBytes(_ field: UInt64) throws(PackageError) -> [ArraySlice<UInt8>] {
        try fields.filter { $0.number == field }.map { (entry) throws(PackageError) in
            guard case .bytes(let bytes) = entry.value else { throw malformed("has no bytes in the field \(field)") }
            return bytes
        }
    }

    /// Returns the numbers of a packed field. The list is empty if the message does not have the field.
    func packedNumbers(_ field: UInt64) throws(PackageError) -> [UInt32] {
        guard let packed = try bytes(field) else { return [] }
        var reader = ByteReader(packed)
        var numbers: [UInt32] = []
        while reader.remaining > 0 {
            guard let number = UInt32(exactly: try number(&reader)) else {
                throw malformed("has a number above \(UInt32.max) in the field \(field)")
            }
            numbers.append(number)
        }
        return numbers
    }

    /// Returns the numbers of the fields that are not in `known`, ascending.
    func unknownFields(besides known: Set<UInt64>) -> [UInt64] {
        Set(fields.map(\.number)).subtracting(known).sorted()
    }

    /// - Throws: `bad-init-packet` if the message has a field that is not in `known`.
    func expectOnly(_ known: Set<UInt64>) throws(PackageError) {
        guard let field = unknownFields(besides: known).first else { return }
        throw malformed("has the unknown field \(field)")
    }

    /// The error for a message that lacks a field, or has a wrong value. `problem` continues the sentence after the name of the message.
    func malformed(_ problem: String) -> PackageError { PackageError(.badInitPacket, "\(name) \(problem)") }

    private func value(ofType type: UInt64, _ reader: inout ByteReader) throws(PackageError) -> Value {
        switch type {
        case 0: return .number(try number(&reader))
        case 1, 5:
            _ = try bytes(type == 1 ? 8 : 4, &reader)
            return .fixed
        case 2: return .bytes(try bytes(try number(&reader), &reader))
        default: throw malformed("has a field of the wire type \(type)")
        }
    }

    private func bytes(_ count: UInt64, _ reader: inout ByteReader) throws(PackageError) -> ArraySlice<UInt8> {
        guard let length = Int(exactly: count), let bytes = try? reader.read(length) else {
            throw malformed("ends inside a field of \(count) bytes; \(reader.remaining) bytes follow")
        }
        return bytes
    }

    /// Reads a base 128 number. The lowest 7 bits come first, and each byte but the last has the bit 0x80.
    private func number(_ reader: inout ByteReader) throws(PackageError) -> UInt64 {
        var number: UInt64 = 0
        for place in UInt64(0)..<10 {
            guard let byte = try? reader.read(UInt8.self) else { throw malformed("ends inside a number") }
            // The tenth byte has the bit 63.
            guard place < 9 || byte <= 1 else { throw malformed("has a number of more than 64 bits") }
            number |= UInt64(byte & 0x7F) << (7 * place)
            guard byte & 0x80 == 0 else { continue }
            guard byte != 0 || place == 0 else { throw malformed("has a number with unnecessary zero bits") }
            return number
        }
        throw malformed("has a number of more than 64 bits")
    }
}
