import CDBus
import DBus
import Testing

@Suite struct DBusSignatureTests {
    @Test func typesOfASignature() throws {
        let signature = try DBusSignature("a{oa{sa{sv}}}(ybnqiuxtdsogh)aay")
        #expect(
            signature.types == [
                .dictionary(
                    key: .objectPath,
                    value: .dictionary(key: .string, value: .dictionary(key: .string, value: .variant))),
                .structure([
                    .byte, .boolean, .int16, .uint16, .int32, .uint32, .int64, .uint64, .double, .string, .objectPath,
                    .signature, .unixFileDescriptor,
                ]),
                .array(.bytes),
            ])
        #expect(try DBusSignature(signature.types) == signature)
    }

    /// libdbus decides, on every short signature of a few types and on ones at the limits.
    @Test func agreesWithLibdbus() {
        var signatures = [""]
        let alphabet = ["a", "(", ")", "{", "}", "s", "v", "z"]
        var grown = [""]
        for _ in 0..<5 {
            grown = grown.flatMap { start in alphabet.map { start + $0 } }
            signatures += grown
        }
        for depth in [31, 32, 33] {
            signatures.append(String(repeating: "a", count: depth) + "i")
            signatures.append(String(repeating: "(", count: depth) + "i" + String(repeating: ")", count: depth))
            signatures.append(String(repeating: "a{s", count: depth) + "i" + String(repeating: "}", count: depth))
        }
        signatures += [254, 255, 256].map { String(repeating: "i", count: $0) }
        let accepted = signatures.filter { (try? DBusSignature($0)) != nil }
        #expect(accepted == signatures.filter { dbus_signature_validate($0, nil) != 0 })
        #expect(accepted.count > 100)
    }

    @Test func noSignatureOfTypesThatAreNone() {
        for types in [
            [DBusType.structure([])], [.dictionary(key: .variant, value: .string)],
            [.dictionary(key: .bytes, value: .string)], Array(repeating: .byte, count: 256),
        ] {
            #expect(throws: DBusError(.invalidArguments, "")) { try DBusSignature(types) }
        }
    }
}
