import OTASMP

/// An error that the server returns for a request.
enum SMPRefusal: Error {
    /// A general error code, equal in both versions of SMP.
    case general(Int)
    /// An error code of the image group, and the code of SMP version 1 (`first`). Version 1 has the same code for most of these errors.
    case image(Int, first: Int, reason: String? = nil)
    /// A flash operation failed, for example because of a power cut. The server sends no response.
    case flash(FlashError)

    func fields(version: UInt8) -> SMPServer.Fields {
        switch self {
        case .general(let code): [("rc", .scalar(.unsigned(UInt64(code))))]
        case .image(let code, _, _) where version > 0:
            [("err", .map([("group", .scalar(.unsigned(1))), ("rc", .scalar(.unsigned(UInt64(code))))]))]
        case .image(_, let code, let reason):
            [("rc", .scalar(.unsigned(UInt64(code))))] + (reason.map { [("rsn", .scalar(.text($0)))] } ?? [])
        case .flash: []
        }
    }
}
