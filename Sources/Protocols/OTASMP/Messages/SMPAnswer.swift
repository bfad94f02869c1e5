import OTAUpdate

/// The body of a device's answer to a request: the result or an error.
package enum SMPAnswer: Sendable, Equatable {
    /// The device performed the request. The associated value has the fields of the answer.
    case good([String: CBORValue])
    /// The device refused the request.
    case bad(SMPError)

    /// Parses the body of an answer. The answer is good if its error code is 0 or missing.
    ///
    /// The error field is `err` in SMP version 2, and `rc` in version 1. Both fields are accepted in an answer of any version, because
    /// a device with version 2 reports its general errors in `rc`.
    ///
    /// - Throws: ``SMPFrameError`` if the body is not a CBOR map, or if the error field is malformed.
    package init(parsing body: [UInt8]) throws(SMPFrameError) {
        let fields: [String: CBORValue]?
        do {
            fields = try CBORDecoder.decode(body).map
        } catch {
            throw SMPFrameError(context: "the device's answer is not valid CBOR: \(error.context)")
        }
        guard let fields else { throw SMPFrameError(context: "the device's answer is not a CBOR map") }
        if let error = fields["err"] {
            guard let error = error.map, let group = error["group"]?.integer.flatMap(UInt16.init(exactly:)),
                let code = error["rc"]?.integer
            else {
                throw SMPFrameError(context: "the error in the device's answer has no group or no code")
            }
            self = code == 0 ? .good(fields) : .bad(SMPError(group: group, code: code))
        } else if let code = fields["rc"], code != .unsigned(0) {
            guard let code = code.integer else {
                throw SMPFrameError(context: "the error code in the device's answer is not an integer")
            }
            self = .bad(SMPError(code: code, reason: fields["rsn"]?.shortText))
        } else {
            self = .good(fields)
        }
    }
}

/// An error that a device reports in its answer (Zephyr, `mgmt_defines.h`, `os_mgmt.h` and `img_mgmt.h`).
///
/// Errors are equal if their groups and codes are equal.
package struct SMPError: Error, Sendable, Equatable {
    /// The group of commands that defines the code; nil if the code is a general code of SMP.
    package var group: UInt16?
    package var code: Int
    /// The device's description of the error; nil if the answer has no description.
    package var reason: String?

    package init(group: UInt16? = nil, code: Int, reason: String? = nil) {
        self.group = group
        self.code = code
        self.reason = reason
    }

    /// The device does not support the command.
    package static let unsupported = SMPError(code: 8)
    /// The device had no free buffer.
    package static let noMemory = SMPError(code: 2)
    package static let busy = SMPError(code: 10)
    /// The device does not support the SMP version of the request, because the version is too old.
    package static let versionTooOld = SMPError(code: 12)
    /// The device does not support the SMP version of the request, because the version is too new.
    package static let versionTooNew = SMPError(code: 13)

    /// Returns the error with this code of the image group.
    package static func image(_ code: Int) -> SMPError { SMPError(group: SMPRequest.imageGroup, code: code) }

    package static func == (left: SMPError, right: SMPError) -> Bool {
        left.group == right.group && left.code == right.code
    }

    /// The error as text for the user: its meaning if the code is known, the number, and in quotes the device's own description.
    package var meaning: String {
        let number = group.map { "error \(code) of group \($0)" } ?? "error \(code)"
        let reported = reason.map { ", \"\($0)\"" } ?? ""
        return words[code].map { "\($0) (\(number)\(reported))" } ?? number + reported
    }

    /// The meanings of the codes in the error's group.
    private var words: [Int: String] {
        guard let group else { return Self.general }
        return [SMPRequest.systemGroup: Self.system, SMPRequest.imageGroup: Self.image][group] ?? [:]
    }

    private static let general: [Int: String] = [
        1: "unknown error", 2: "out of memory", 3: "invalid value", 4: "timed out", 5: "no such entry",
        6: "not in this state", 7: "too large", 8: "not supported", 9: "packet corrupt", 10: "busy",
        11: "access denied", 12: "SMP version too old", 13: "SMP version too new",
    ]

    private static let system: [Int: String] = [
        1: "unknown error", 2: "invalid format", 3: "unknown query", 4: "the clock is not set", 5: "the clock failed",
        6: "the query has no valid result",
    ]

    private static let image: [Int: String] = [
        1: "unknown error", 2: "the flash layout cannot be read", 3: "no image in the slot",
        4: "the image has no TLVs", 5: "a TLV of the image is invalid",
        6: "the image has several digests", 7: "a TLV of the image has a wrong size",
        8: "no image has this digest", 9: "the other slot is in use", 10: "the flash cannot be opened",
        11: "the flash cannot be read", 12: "the flash cannot be written", 13: "the flash cannot be erased",
        14: "no such slot", 15: "out of memory", 16: "another upload is in progress", 17: "no upload is in progress",
        18: "no flash device", 19: "a page of the flash cannot be found", 20: "the offset is missing",
        21: "the length is missing or wrong", 22: "the image's header is too short",
        23: "the image is not an MCUboot image",
        24: "the digest has a wrong length", 25: "the image is linked for another address",
        26: "the running version cannot be read", 27: "the running version is not older",
        28: "another image is marked for boot", 29: "the image's vector table is invalid",
        30: "the image is too large for the slot", 31: "more data than the announced length",
        32: "the image cannot be confirmed", 33: "the running image cannot be marked for test",
        34: "the running slot is unknown",
    ]
}

extension SMPError {
    /// Returns the session's error for this SMP error.
    ///
    /// - Parameter request: the request that the device refused with this SMP error.
    func update(_ request: SMPRequest) -> UpdateError {
        if request == .imageState, self == .unsupported {
            return UpdateError(
                .unsupportedDevice,
                "its firmware refuses the image list, as if it was built without the commands about images (CONFIG_MCUMGR_GRP_IMG)"
            )
        }
        return UpdateError(
            updateCode, "the device refused \(request.name): \(meaning)", isMarkedForBoot: (group, code) == (1, 28),
            remedy: isUnexplained ? .deviceLog : nil)
    }

    /// True if the error gives no reason: it is "unknown error", or Zephyr does not define its code. For example, a server of SMP version 1
    /// answers with 1 if its image list does not have the digest, and also if its flash fails.
    private var isUnexplained: Bool { code == 1 || words[code] == nil }

    /// True if the server refuses the fields of a request: they are malformed, or a chunk has no offset or no data.
    package var isMalformedRequest: Bool { [(nil, 3), (1, 20), (1, 21)].contains { $0 == (group, code) } }

    private var updateCode: UpdateError.Code {
        switch (group, code) {
        case (nil, 2), (nil, 4), (nil, 10), (1, 15): .deviceBusy
        case (nil, 3), (nil, 5), (nil, 9), (nil, 12), (nil, 13), (1, 16), (1, 17), (1, 20), (1, 21), (1, 24), (1, 31):
            .protocolViolation
        case (nil, 6), (1, 9), (1, 28): .inTrial
        case (nil, 7), (1, 30): .imageTooLarge
        case (nil, 8), (1, 14), (1, 34): .unsupportedDevice
        case (1, 2), (1, 10), (1, 11), (1, 12), (1, 13), (1, 18), (1, 19): .flashFailed
        case (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 8), (1, 22), (1, 23), (1, 25), (1, 29): .wrongImageFormat
        case (1, 27): .downgrade
        default: .refusedByPolicy
        }
    }
}
