import CDBus
import DBus
import Testing

@Suite("D-Bus signatures")
struct DBusSignatureTests {
    @Test("a signature is parsed into its types and back")
    func typesOfASignature() throws {
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

    /// The inputs are all short strings over a small alphabet, and signatures at the limits of nesting and length.
    @Test("the parser accepts the same signatures as libdbus")
    func agreesWithLibdbus() {
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

    @Test("invalid types do not form a signature")
    func noSignatureOfTypesThatAreNone() {
        for types in [
            [DBusType.structure([])], [.dictionary(key: .variant, value: .string)],
            [.dictionary(key: .bytes, value: .string)], Array(repeating: .byte, count: 256),
        ] {
            #expect(throws: DBusError(.invalidArguments, "")) { try DBusSignature(types) }
        }
    }
}
