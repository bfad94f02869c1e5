/// Why a device did not do what it was asked for. Zephyr, `mgmt_defines.h` and `img_mgmt.h`.
package struct SMPError: Error, Sendable, Equatable {
    /// The group whose own code it is; nil: one of SMP itself.
    package var group: UInt16?
    package var code: Int
    /// In the device's words, which version 1 of SMP may have.
    package var reason: String?

    package init(group: UInt16? = nil, code: Int, reason: String? = nil) {
        self.group = group
        self.code = code
        self.reason = reason
    }

    /// It has no such command.
    package static let unsupported = SMPError(code: 8)
    /// No buffer was free.
    package static let noMemory = SMPError(code: 2)
    package static let busy = SMPError(code: 10)
    /// The packet's version of SMP is not its own.
    package static let versionTooOld = SMPError(code: 12)
    package static let versionTooNew = SMPError(code: 13)

    package static func image(_ code: Int) -> SMPError { SMPError(group: SMPRequest.imageGroup, code: code) }

    package static func == (left: SMPError, right: SMPError) -> Bool {
        left.group == right.group && left.code == right.code
    }

    /// For people: what it means, its number, and what else the device says.
    package var meaning: String {
        let number = group.map { "error \(code) of group \($0)" } ?? "error \(code)"
        let words = group.map { [SMPRequest.systemGroup: Self.system, SMPRequest.imageGroup: Self.image][$0] ?? [:] }
        let reported = reason.map { ", \"\($0)\"" } ?? ""
        return (words ?? Self.general)[code].map { "\($0) (\(number)\(reported))" } ?? number + reported
    }

    private static let general: [Int: String] = [
        1: "unknown error", 2: "out of memory", 3: "invalid value", 4: "timed out", 5: "no such entry",
        6: "not in this state", 7: "too large", 8: "not supported", 9: "packet corrupt", 10: "busy",
        11: "access denied", 12: "SMP version too old", 13: "SMP version too new",
    ]

    private static let system: [Int: String] = [
        1: "unknown error", 2: "invalid format", 3: "nothing to tell", 4: "no clock", 5: "the clock is not set",
    ]

    private static let image: [Int: String] = [
        1: "unknown error", 2: "the flash layout cannot be read", 3: "no image in the slot",
        4: "the image has no trailer records", 5: "a trailer record of the image is invalid",
        6: "the image has several digests", 7: "a trailer record of the image has a wrong size",
        8: "no image with this digest", 9: "the other slot is in use", 10: "the flash cannot be opened",
        11: "the flash cannot be read", 12: "the flash cannot be written", 13: "the flash cannot be erased",
        14: "no such slot", 15: "out of memory", 16: "an upload is under way already", 17: "no upload is under way",
        18: "no flash device", 19: "a page of the flash cannot be found", 20: "the offset is missing",
        21: "the length is missing or wrong", 22: "the image's header is too short", 23: "it is no MCUboot image",
        24: "the digest has a wrong length", 25: "the image is linked for another address",
        26: "the running version cannot be read", 27: "the running version is not older",
        28: "another image is waiting for the next start", 29: "the image's vector table is invalid",
        30: "the image is too large for the slot", 31: "more data than was announced",
        32: "it cannot be confirmed", 33: "the running image cannot be marked for test",
        34: "the running slot is not known",
    ]
}
