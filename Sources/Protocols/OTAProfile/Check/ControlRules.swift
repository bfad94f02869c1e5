import OTAUpdate

/// The rules of the sections "Control" and "States" that need no open object.
extension CheckRule {
    static let ofControl = [
        CheckRule(
            "unknown-opcode", "control", "Answers an unknown opcode with the status 1 (unknown opcode)",
            fix: "answer every opcode outside the table with the status 1", start: .idle,
            [
                .ask([0], expecting: .unknownOpcode, "the opcode 0"),
                .ask([8], expecting: .unknownOpcode, "the opcode 8"),
                .ask([0x7F, 1, 2, 3], expecting: .unknownOpcode, "the opcode 0x7f"),
            ]),
        CheckRule(
            "idle-requests", "states", "Refuses BEGIN image, SYNC and FINISH in the state idle with 3 (bad state)",
            fix: "check the state before the arguments; only BEGIN envelope, DISCARD and IDENTIFY are possible in idle",
            start: .idle,
            [
                .ask(CheckRequest.begin(2, size: 600), expecting: .badState, "BEGIN image without an envelope"),
                .ask(CheckRequest.sync(0), expecting: .badState, "SYNC without an open object"),
                .ask(CheckRequest.finish, expecting: .badState, "FINISH without an open object"),
            ]),
        CheckRule(
            "apply-without-image", "states", "Refuses APPLY without a verified image with 3 (bad state)",
            fix: "accept APPLY only in the state verified", start: .idle,
            [
                .ask(CheckRequest.applyTrial, expecting: .badState, "APPLY without an image"),
                .state(.idle, "after APPLY"),
            ]),
        CheckRule(
            "confirm-outside-trial", "states", "Refuses CONFIRM outside a trial with 3 (bad state)",
            fix: "accept CONFIRM only in the state trial", start: .idle,
            [.ask(CheckRequest.confirm, expecting: .badState, "CONFIRM outside a trial")]),
        CheckRule(
            "discard", "states", "Accepts DISCARD in the states idle and envelope, and is idle afterwards",
            fix: "DISCARD leads to idle from every state without a trial", start: .idle,
            skipped: { $0.holdsUpload ? "DISCARD would discard the partial upload that the device holds" : nil },
            [
                .ask(CheckRequest.discard, expecting: .ok, "DISCARD in idle"), .open(158),
                .ask(CheckRequest.discard, expecting: .ok, "DISCARD in envelope"), .state(.idle, "after DISCARD"),
                .ask(CheckRequest.sync(0), expecting: .badState, "SYNC after DISCARD"),
            ]),
        CheckRule(
            "identify", "control", "Answers IDENTIFY with ok, or with 1 (unknown opcode) if it cannot blink",
            fix: "answer IDENTIFY in every state; 0 seconds stop the blinking", start: .idle,
            [
                CheckStep({ _ in .ask([7, 0]) }) { (_, outcome) throws(Deviation) in
                    let status = try outcome.answer("IDENTIFY").status
                    guard status > 1 else { return 1 }
                    throw Deviation("IDENTIFY got the status \(CheckStep.Outcome.text(status))")
                }
            ]),
        CheckRule(
            "request-length", "control", "Refuses requests that are too short or too long with 2 (bad argument)",
            fix: "compare the length of each request with the table before you read its arguments",
            [
                .ask(CheckRequest.begin(1, size: 158).dropLast(), expecting: .badArgument, "BEGIN of 18 bytes"),
                .ask(CheckRequest.begin(1, size: 158) + [0], expecting: .badArgument, "BEGIN of 20 bytes"),
                .open(158),
                .ask([2, 0], expecting: .badArgument, "SYNC of 3 bytes"),
                .ask([2, 0, 0, 0], expecting: .badArgument, "SYNC of 5 bytes"),
                .state(.envelope, "after refused requests"),
            ]),
        CheckRule(
            "envelope-size", "states", "Refuses an envelope below 158 bytes or above its longest with 2 (bad argument)",
            fix: "compare the size in BEGIN with 158 and with Info item 12, before you open the envelope", start: .idle,
            [
                .ask(CheckRequest.begin(1, size: 157), expecting: .badArgument, "BEGIN of an envelope of 157 bytes"),
                CheckStep({ .ask(CheckRequest.begin(1, size: $0.limits.longestEnvelope + 1)) }) {
                    (_, outcome) throws(Deviation) in
                    try outcome.expect(.badArgument, "BEGIN of an envelope that is too long")
                    return 1
                },
                .state(.idle, "after refused requests"),
            ]),
        CheckRule(
            "envelope-requests", "states",
            "Refuses BEGIN image, APPLY and CONFIRM in the state envelope with 3 (bad state)",
            fix: "check the state before the arguments",
            [
                .open(158),
                .ask(CheckRequest.begin(2, size: 600), expecting: .badState, "BEGIN image in the state envelope"),
                .ask(CheckRequest.applyTrial, expecting: .badState, "APPLY in the state envelope"),
                .ask(CheckRequest.confirm, expecting: .badState, "CONFIRM in the state envelope"),
                .state(.envelope, "after refused requests"),
            ]),
    ]
}
