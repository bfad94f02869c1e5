import DBus
import Testing

@Suite("D-Bus values")
struct DBusValueTests {
    @Test("literals have the documented D-Bus types")
    func literals() {
        #expect("text" == DBusValue.string("text"))
        #expect(true == DBusValue.boolean(true))
        #expect(-5 == DBusValue.int32(-5))
        #expect(1.5 == DBusValue.double(1.5))
        #expect(["a", "b"] == DBusValue.strings(["a", "b"]))
        #expect([] == DBusValue.array(of: .variant, []))
        let options: DBusValue = ["type": "command", "offset": .uint16(3), "kept": .variant(.byte(1))]
        #expect(options.type.text == "a{sv}")
        #expect(options == .properties(["type": "command", "offset": .uint16(3), "kept": .byte(1)]))
        #expect([:] == DBusValue.dictionary(key: .string, value: .variant, [:]))
    }

    @Test("accessors remove variants and return nil for other types")
    func accessorsLookThroughVariants() {
        let value = DBusValue.variant(.variant(.uint16(517)))
        #expect(value.uint16 == 517)
        #expect(value.integer == 517)
        #expect(value.uint32 == nil)
        #expect(value.string == nil)
        #expect(DBusValue.uint64(.max).integer == nil)
        #expect(DBusValue.variant(.bytes([1, 2])).bytes == [1, 2])
        #expect(DBusValue.objectPaths(["/a"]).objectPaths == ["/a"])
        #expect(DBusValue.objectPaths(["/a"]).strings == nil)
        #expect(DBusValue.properties(["MTU": .uint16(23)]).properties == ["MTU": .uint16(23)])
    }

    @Test("require throws unexpectedValue for a missing value or another type")
    func whatIsRequired() throws {
        let reply: [DBusValue] = ["text", .uint16(247)]
        #expect(try reply.require(1, \.uint16) == 247)
        #expect(throws: DBusError(.unexpectedValue, "")) { try reply.require(1, \.string) }
        #expect(throws: DBusError(.unexpectedValue, "")) { try reply.require(2, \.string) }
        do throws(DBusError) { _ = try reply.require(0, \.bytes) } catch {
            #expect(error.message == "expected Array<UInt8>, got type s")
        }
    }
}
