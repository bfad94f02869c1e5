import CPKCS11
import Glibc
import OTASigners
import OTASigning
import Testing

/// p11-kit's parser of PKCS#11 URIs (p11-kit/uri.h). The library is loaded at run time.
private struct P11Kit {
    /// The values of an accepted URI. A value that the URI does not have is nil.
    struct Values: Equatable {
        var token, serial, manufacturer, model, object, modulePath, pinSource: String?
        var id: [UInt8]?
        var slot: UInt?

        init(_ uri: TokenURI) {
            (token, serial, manufacturer, model) = (uri.token, uri.serial, uri.manufacturer, uri.model)
            (object, modulePath, pinSource) = (uri.object, uri.modulePath, uri.pinSource)
            (id, slot) = (uri.id, uri.slot)
        }

        fileprivate init() {}
    }

    private let library: UnsafeMutableRawPointer

    init() throws { library = try #require(dlopen("libp11-kit.so.0", RTLD_NOW)) }

    private func function<Function>(_ name: String, _: Function.Type) throws -> Function {
        unsafeBitCast(try #require(dlsym(library, "p11_kit_uri_" + name), "\(name)"), to: Function.self)
    }

    /// Returns the values of a URI; nil if p11-kit refuses it.
    func parse(_ text: String) throws -> Values? {
        let uri = try #require(try function("new", (@convention(c) () -> OpaquePointer?).self)())
        defer { try? function("free", (@convention(c) (OpaquePointer) -> Void).self)(uri) }
        let parse = try function(
            "parse", (@convention(c) (UnsafePointer<CChar>, UInt32, OpaquePointer) -> Int32).self)
        guard parse(text, 0xFFFF, uri) == 0 else { return nil }
        let info = try #require(
            try function("get_token_info", (@convention(c) (OpaquePointer) -> UnsafePointer<CK_TOKEN_INFO>?).self)(uri)
        ).pointee
        typealias Text = @convention(c) (OpaquePointer) -> UnsafePointer<CChar>?
        typealias Attribute = @convention(c) (OpaquePointer, CK_ATTRIBUTE_TYPE) -> UnsafePointer<CK_ATTRIBUTE>?
        func attribute(_ type: CK_ATTRIBUTE_TYPE) throws -> [UInt8]? {
            try function("get_attribute", Attribute.self)(uri, type).map { attribute in
                Array(UnsafeRawBufferPointer(start: attribute.pointee.pValue, count: Int(attribute.pointee.ulValueLen)))
            }
        }
        var values = Values()
        values.token = Self.field(info.label)
        values.serial = Self.field(info.serialNumber)
        values.manufacturer = Self.field(info.manufacturerID)
        values.model = Self.field(info.model)
        values.object = try attribute(CKA_LABEL).map { String(decoding: $0, as: UTF8.self) }
        values.id = try attribute(CKA_ID)
        values.modulePath = try function("get_module_path", Text.self)(uri).map { String(cString: $0) }
        values.pinSource = try function("get_pin_source", Text.self)(uri).map { String(cString: $0) }
        let slot = try function("get_slot_id", (@convention(c) (OpaquePointer) -> CK_SLOT_ID).self)(uri)
        values.slot = slot == .max ? nil : slot
        return values
    }

    /// A field that the URI does not set begins with a zero byte. Blanks fill a set field.
    private static func field<Field>(_ field: Field) -> String? {
        withUnsafeBytes(of: field) { bytes in
            guard bytes[0] != 0 else { return nil }
            let end = bytes.lastIndex { $0 != 0x20 }.map { $0 + 1 } ?? 0
            return String(decoding: bytes[..<end], as: UTF8.self)
        }
    }
}

@Suite("PKCS#11 URIs of keys (RFC 7512)") struct TokenURITests {
    @Test(
        "an accepted URI has the values that p11-kit reads",
        arguments: [
            "pkcs11:", "pkcs11:?", "pkcs11:token=release", "pkcs11:token=release;object=fw",
            "pkcs11:object=my%20key;token=The%20Software%20PKCS%2311%20Softtoken", "pkcs11:object=a%3bb%3Dc%3fd%26e",
            "pkcs11:object=a=b", "pkcs11:object=a&b", "pkcs11:object=%c3%bc", "pkcs11:object=ü",
            "pkcs11:object=a/b:c@d",
            "pkcs11:id=%01", "pkcs11:id=%00%FF%0a", "pkcs11:id=ab%20", "pkcs11:id=",
            "pkcs11:serial=DECC0401648;manufacturer=piv_II;model=PKCS%2315%20emulated", "pkcs11:slot-id=0",
            "pkcs11:slot-id=18446744073709551614", "pkcs11:object=fw;type=private",
            "pkcs11:object=fw?module-path=/usr/lib/softhsm/libsofthsm2.so",
            "pkcs11:object=fw?pin-source=/run/pin&module-path=/a%20b.so", "pkcs11:?pin-source=a?b",
            "pkcs11:object=fw?module-path=libsofthsm2.so",
        ])
    func agreesWithP11Kit(text: String) throws {
        let uri = try TokenURI(text)
        #expect(try P11Kit().parse(text) == P11Kit.Values(uri))
    }

    /// p11-kit ignores or changes what is refused here. Each difference could select another key than the user expects.
    @Test(
        "a URI that is malformed, ambiguous or has an unused attribute is refused with the reason",
        arguments: [
            // p11-kit refuses these, too.
            ("pkcs11", "does not start", false), ("release.pem", "does not start", false),
            ("pkcs11:object", "not NAME=VALUE", false), ("pkcs11:=fw", "not NAME=VALUE", false),
            ("pkcs11:object=%zz", "'object' contains a %", false), ("pkcs11:object=%2", "'object' contains a %", false),
            ("pkcs11:object=%", "'object' contains a %", false), ("pkcs11:id=%0g", "'id' contains a %", false),
            ("pkcs11:slot-id=x", "'slot-id' is not", false), ("pkcs11:type=unknown", "type is not", true),
            ("pkcs11:slot-id=18446744073709551616", "'slot-id' is not", true),
            // p11-kit accepts these.
            ("PKCS11:object=fw", "does not start", true), ("pkcs11:object=a b", "'object' contains a blank", true),
            ("pkcs11:object=a\tb", "'object' contains a blank", true), ("pkcs11:object=fw;", "not NAME=VALUE", true),
            ("pkcs11:object=fw;object=other", "'object' occurs twice", true),
            ("pkcs11:object=fw?pin-source=a&pin-source=b", "'pin-source' occurs twice", true),
            ("pkcs11:object=a%00b", "'object' is not printable", true),
            ("pkcs11:token=%1b[31m", "'token' is not", true),
            ("pkcs11:object=%ff", "'object' is not printable", true), ("pkcs11:slot-id=", "'slot-id' is not", true),
            ("pkcs11:type=public", "type is not", true), ("pkcs11:type=cert", "type is not", true),
            ("pkcs11:library-version=3", "'library-version' is not supported", true),
            ("pkcs11:library-description=x", "'library-description' is not supported", true),
            ("pkcs11:slot-description=x", "'slot-description' is not supported", true),
            ("pkcs11:slot-manufacturer=x", "'slot-manufacturer' is not supported", true),
            ("pkcs11:x-vendor=1", "'x-vendor' is not supported", true),
            ("pkcs11:object=fw?x-vendor=1", "'x-vendor' is not supported", true),
            ("pkcs11:object=fw?module-name=softhsm2", "module-name is not supported", true),
            ("pkcs11:pin-source=/run/pin", "before the ?", true), ("pkcs11:?object=fw", "'object' is not", true),
            ("pkcs11:?pin-source=|cat", "is a command", true), ("pkcs11:?pin-source=https://x/y", "not a file", true),
            ("pkcs11:?pin-source=file://host/pin", "not a file", true), ("pkcs11:?pin-source=", "is empty", true),
            ("pkcs11:?module-path=", "is empty", true), ("pkcs11:?module-path=/a%00b", "'module-path' is not", true),
        ])
    func refuses(text: String, reason: String, p11KitAccepts: Bool) throws {
        #expect((try P11Kit().parse(text) != nil) == p11KitAccepts)
        let error = #expect(throws: KeyError(.badKeyURI, "")) { try TokenURI(text) }
        #expect(error?.context.contains(reason) == true, "\(error?.context ?? "")")
    }

    @Test(
        "a PIN in the URI is refused, and the error does not contain it",
        arguments: ["pkcs11:object=fw?pin-value=8841", "pkcs11:pin-value=8841", "pkcs11:?pin-value=88%zz41"])
    func refusesAPIN(text: String) {
        let error = #expect(throws: KeyError(.badKeyURI, "")) { try TokenURI(text) }
        #expect(error?.context.contains("pin-value is refused") == true)
        #expect(error?.context.contains("88") == false && error?.hint?.contains("88") == false)
        #expect(error?.hint?.contains("--pin-fd") == true)
    }

    @Test(
        "pin-source is a path or a file URI",
        arguments: [
            ("/run/pin", "/run/pin"), ("pin", "pin"), ("file:/run/pin", "/run/pin"), ("file:///run/pin", "/run/pin"),
            ("file://localhost/run/pin", "/run/pin"), ("file:pin", "pin"), ("./a:b", "./a:b"),
        ])
    func pinSources(value: String, path: String) throws {
        #expect(try TokenURI("pkcs11:?pin-source=\(value)").pinSource == path)
    }
}
