internal import CPKCS11
internal import OTASigning

/// An object in a token: a private key or a public key.
struct TokenObject {
    let session: TokenSession
    let handle: CK_OBJECT_HANDLE

    /// The approximate maximum number of objects that `all(_:in:)` returns. Without a limit, the search in a faulty token could be endless.
    private static let limit = 4096
    /// The maximum length of an attribute, in bytes. All attributes of keys are shorter. A longer value is ignored, because a faulty token
    /// can report a wrong length.
    private static let maximumLength: CK_ULONG = 64 << 10

    /// Returns all objects of a class, such as CKO_PRIVATE_KEY.
    static func all(_ kind: CK_OBJECT_CLASS, in session: TokenSession) throws(ReturnValue) -> [TokenObject] {
        var template = AttributeList()
        template.add(CKA_CLASS, number: kind)
        try template.withAttributes { (attributes) throws(ReturnValue) in
            try session.call(\.C_FindObjectsInit) { $0($1, attributes.baseAddress, CK_ULONG(attributes.count)) }
        }
        defer { try? session.call(\.C_FindObjectsFinal) { $0($1) } }
        var objects: [TokenObject] = []
        var handles = [CK_OBJECT_HANDLE](repeating: 0, count: 64)
        while objects.count < limit {
            var count: CK_ULONG = 0
            try session.call(\.C_FindObjects) { $0($1, &handles, CK_ULONG(handles.count), &count) }
            guard count > 0, count <= handles.count else { break }
            objects += handles.prefix(Int(count)).map { TokenObject(session: session, handle: $0) }
        }
        return objects
    }

    /// Returns the value of an attribute. Returns nil if the object does not have the attribute, if the token does not reveal the value, or
    /// if the value is longer than `maximumLength`.
    func bytes(_ type: CK_ATTRIBUTE_TYPE) -> [UInt8]? {
        var attribute = CK_ATTRIBUTE(type: type, pValue: nil, ulValueLen: 0)
        func read() -> Bool { (try? session.call(\.C_GetAttributeValue) { $0($1, handle, &attribute, 1) }) != nil }
        guard read(), attribute.ulValueLen <= Self.maximumLength else { return nil }
        let capacity = Int(attribute.ulValueLen)
        guard capacity > 0 else { return [] }
        return withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 16) { buffer in
            attribute.pValue = buffer.baseAddress
            guard read(), attribute.ulValueLen <= capacity else { return nil }
            return Array(buffer[..<Int(attribute.ulValueLen)])
        }
    }

    /// Returns the value of an attribute of the type CK_ULONG. Returns nil if `bytes(_:)` returns nil, or if the value does not have the
    /// length of a CK_ULONG.
    func number(_ type: CK_ATTRIBUTE_TYPE) -> CK_ULONG? {
        guard let bytes = bytes(type), bytes.count == MemoryLayout<CK_ULONG>.size else { return nil }
        return bytes.withUnsafeBytes { $0.loadUnaligned(as: CK_ULONG.self) }
    }

    /// Returns the value of an attribute of the type CK_BBOOL; false if the object does not have the attribute.
    func flag(_ type: CK_ATTRIBUTE_TYPE) -> Bool { bytes(type).map { $0 == [UInt8(CK_TRUE)] } ?? false }

    var id: [UInt8] { bytes(CKA_ID) ?? [] }
    var label: String { String(decoding: bytes(CKA_LABEL) ?? [], as: UTF8.self) }

    /// Replaces an attribute.
    func set(_ type: CK_ATTRIBUTE_TYPE, _ value: [UInt8]) throws(ReturnValue) {
        var change = AttributeList()
        change.add(type, value)
        try change.withAttributes { (attributes) throws(ReturnValue) in
            try session.call(\.C_SetAttributeValue) {
                $0($1, handle, attributes.baseAddress, CK_ULONG(attributes.count))
            }
        }
    }

    func destroy() throws(ReturnValue) { try session.call(\.C_DestroyObject) { $0($1, handle) } }
}

/// A list of attributes for a call of PKCS#11: for a search, a new object or a change.
struct AttributeList {
    private var types: [CK_ATTRIBUTE_TYPE] = []
    private var ranges: [Range<Int>] = []
    private var values: [UInt8] = []

    mutating func add(_ type: CK_ATTRIBUTE_TYPE, _ value: [UInt8]) {
        types.append(type)
        // Each value begins at a multiple of 8 bytes, because modules read numbers directly from this memory.
        values += [UInt8](repeating: 0, count: (8 - values.count % 8) % 8)
        ranges.append(values.count..<values.count + value.count)
        values += value
    }

    mutating func add(_ type: CK_ATTRIBUTE_TYPE, number: CK_ULONG) {
        add(type, withUnsafeBytes(of: number) { Array($0) })
    }

    mutating func add(_ type: CK_ATTRIBUTE_TYPE, flag: Bool) { add(type, [UInt8(flag ? CK_TRUE : CK_FALSE)]) }

    /// Calls `body` with the attributes. The pointers are valid only during the call.
    func withAttributes<Failure: Error>(
        _ body: (UnsafeMutableBufferPointer<CK_ATTRIBUTE>) throws(Failure) -> Void
    ) throws(Failure) {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(values.count, 1), alignment: 16)
        defer { memory.deallocate() }
        memory.copyBytes(from: values)
        var attributes = zip(types, ranges).map { type, range in
            CK_ATTRIBUTE(
                type: type, pValue: memory.baseAddress?.advanced(by: range.lowerBound),
                ulValueLen: CK_ULONG(range.count))
        }
        try attributes.withUnsafeMutableBufferPointer { (buffer) throws(Failure) in try body(buffer) }
    }
}
