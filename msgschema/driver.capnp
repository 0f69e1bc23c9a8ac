@0xe7b6a4d90c2f8157;
# The driver as the cabin camera sees them; the driving model needs the traffic side (isRHD).

struct DriverStateV2 @0xfc010c40147563b0 {
  frameId @0 :UInt32;
  modelExecutionTime @1 :Float32;
  dspExecutionTimeDEPRECATED @2 :Float32;
  rawPredictions @3 :Data;
  poorVisionProbDEPRECATED @4 :Float32;
  wheelOnRightProb @5 :Float32;
  leftDriverData @6 :DriverData;
  rightDriverData @7 :DriverData;
  gpuExecutionTime @8 :Float32;

  struct DriverData {
    faceOrientation @0 :List(Float32);
    faceOrientationStd @1 :List(Float32);
    facePosition @2 :List(Float32);
    facePositionStd @3 :List(Float32);
    faceProb @4 :Float32;
    leftEyeProb @5 :Float32;
    rightEyeProb @6 :Float32;
    leftBlinkProb @7 :Float32;
    rightBlinkProb @8 :Float32;
    sunglassesProb @9 :Float32;
    occludedProbDEPRECATED @10 :Float32;
    readyProbDEPRECATED @11 :List(Float32);
    notReadyProbDEPRECATED @12 :List(Float32);
    phoneProb @13 :Float32;
    sleepProb @14 :Float32;
  }
}

struct DriverMonitoringState @0xa0df507d7df1052d {
  lockout @0 :Bool;
  alertCountLockoutPercentDEPRECATED @1 :Int8;
  alertTimeLockoutPercentDEPRECATED @2 :Int8;
  alwaysOn @3 :Bool;
  alwaysOnLockout @4 :Bool;
  alertLevel @5 :AlertLevel;
  activePolicy @6 :MonitoringPolicy;
  isRHD @7 :Bool;
  rhdCalibration @8 :CalibrationState;
  visionPolicyState @9 :VisionPolicyState;
  wheeltouchPolicyState @10 :WheeltouchPolicyState;
  lockoutMinutesRemaining @11 :Int8;
  alert3Count @12 :Int8;
  noResponseCount @13 :Int8;
  noResponseForceDecel @14 :Bool;
  lockoutCount @15 :Int8;

  enum AlertLevel {
    none @0;
    one @1;
    two @2;
    three @3;
  }

  enum MonitoringPolicy {
    wheeltouch @0;
    vision @1;
  }

  struct CalibrationState {
    calibratedPercent @0 :Int8;
    offset @1 :Float32;
  }

  struct VisionPolicyState {
    awarenessPercent @0 :Int8;
    awarenessStep @1 :Float32;
    isDistracted @2 :Bool;
    distractedTypes @3 :DistractedTypes;
    faceDetected @4 :Bool;
    pose @5 :Pose;
    wheeltouchFallbackPercent @6 :Int8;
    uncertainOffroadAlertPercent @7 :Int8;

    struct DistractedTypes {
      pose @0 :Bool;
      eye @1 :Bool;
      phone @2 :Bool;
      sleep @3 :Bool;
    }

    struct Pose {
      pitch @0 :Float32;
      yaw @1 :Float32;
      pitchCalib @2 :CalibrationState;
      yawCalib @3 :CalibrationState;
      calibrated @4 :Bool;
      uncertainty @5 :Float32;
    }
  }

  struct WheeltouchPolicyState {
    awarenessPercent @0 :Int8;
    awarenessStep @1 :Float32;
    driverInteracting @2 :Bool;
  }
}

# The member that stood at ordinal 71 before 151 took its name.
struct DriverMonitoringStateDEPRECATED @0xb83cda094a1da284 {
  eventsDEPRECATED @0 :AnyPointer;
  faceDetected @1 :Bool;
  isDistracted @2 :Bool;
  awarenessStatus @3 :Float32;
  isRHD @4 :Bool;
  rhdCheckedDEPRECATED @5 :Bool;
  posePitchOffset @6 :Float32;
  posePitchValidCount @7 :UInt32;
  poseYawOffset @8 :Float32;
  poseYawValidCount @9 :UInt32;
  stepChange @10 :Float32;
  awarenessActive @11 :Float32;
  awarenessPassive @12 :Float32;
  isLowStd @13 :Bool;
  hiStdCount @14 :UInt32;
  isPreviewDEPRECATED @15 :Bool;
  isActiveMode @16 :Bool;
  distractedType @17 :UInt32;
  events @18 :AnyPointer;
  uncertainCount @19 :UInt32;
  phoneProbOffsetDEPRECATED @20 :Float32;
  phoneProbValidCountDEPRECATED @21 :UInt32;
}
