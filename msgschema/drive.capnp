@0xc5d0e3b1a6948f27;
# How the device sits in the car, how late the car steers, and what drives at the moment.

using Car = import "car.capnp";

struct ExtrinsicsCalibration @0x96df70754d8390bc {
  warpMatrixDEPRECATED @0 :List(Float32);
  calStatusDEPRECATED @1 :Int8;
  calCycle @2 :Int32;
  calPerc @3 :Int8;
  extrinsicMatrix @4 :List(Float32);
  warpMatrix2DEPRECATED @5 :List(Float32);
  warpMatrixBigDEPRECATED @6 :List(Float32);
  # Roll, pitch, yaw of the device in the calibrated frame, radians.
  rpyCalib @7 :List(Float32);
  rpyCalibSpread @8 :List(Float32);
  validBlocks @9 :Int32;
  wideFromDeviceEuler @10 :List(Float32);
  calStatus @11 :Status;
  height @12 :List(Float32);

  enum Status {
    uncalibrated @0;
    calibrated @1;
    invalid @2;
    recalibrating @3;
  }
}

struct LateralDelay @0x98dfdb22c44df8d4 {
  lateralDelay @0 :Float32;
  validBlocks @1 :Int32;
  status @2 :Status;
  lateralDelayEstimate @3 :Float32;
  points @4 :List(Float32);
  lateralDelayEstimateStd @5 :Float32;
  calPerc @6 :Int8;
  version @7 :Int32;

  enum Status {
    unestimated @0;
    estimated @1;
    invalid @2;
  }
}

enum LongitudinalPersonality @0xd692e23d1a247d99 {
  aggressive @0;
  standard @1;
  relaxed @2;
}

struct SelfdriveState @0xb52430dc48f4a83b {
  state @0 :OpenpilotState;
  enabled @1 :Bool;
  active @2 :Bool;
  alertText1 @3 :Text;
  alertText2 @4 :Text;
  alertStatus @5 :AlertStatus;
  alertSize @6 :AlertSize;
  alertType @7 :Text;
  alertSoundDEPRECATED @8 :Car.CarControl.HUDControl.AudibleAlert;
  engageable @9 :Bool;
  experimentalMode @10 :Bool;
  personality @11 :LongitudinalPersonality;
  alertHudVisual @12 :Car.CarControl.HUDControl.VisualAlert;
  alertSound @13 :AudibleAlert;

  enum OpenpilotState @0xdbe58b96d2d1ac61 {
    disabled @0;
    preEnabled @1;
    enabled @2;
    softDisabling @3;
    overriding @4;
  }

  enum AlertStatus @0xa0d0dcd113193c62 {
    normal @0;
    userPrompt @1;
    critical @2;
  }

  enum AlertSize @0xe98bb99d6e985f64 {
    none @0;
    small @1;
    mid @2;
    full @3;
  }

  enum AudibleAlert {
    none @0;
    engage @1;
    disengage @2;
    refuse @3;
    warningSoft @4;
    warningImmediate @5;
    prompt @6;
    promptRepeat @7;
    promptDistracted @8;
    preAlert @9;
    complete @10;
  }
}

# The lateral controllers' structs are kept as pointers: they survive, nobody here reads them.
struct ControlsState @0x97ff69c53601abf1 {
  vEgoDEPRECATED @0 :Float32;
  aEgoDEPRECATED @1 :Float32;
  vPidDEPRECATED @2 :Float32;
  vTargetLeadDEPRECATED @3 :Float32;
  upAccelCmd @4 :Float32;
  uiAccelCmd @5 :Float32;
  yActualDEPRECATED @6 :Float32;
  yDesDEPRECATED @7 :Float32;
  upSteerDEPRECATED @8 :Float32;
  uiSteerDEPRECATED @9 :Float32;
  aTargetMinDEPRECATED @10 :Float32;
  aTargetMaxDEPRECATED @11 :Float32;
  jerkFactorDEPRECATED @12 :Float32;
  angleSteersDEPRECATED @13 :Float32;
  hudLeadDEPRECATED @14 :Int32;
  cumLagMsDEPRECATED @15 :Float32;
  canMonoTimeDEPRECATED @16 :UInt64;
  radarStateMonoTimeDEPRECATED @17 :UInt64;
  mdMonoTimeDEPRECATED @18 :UInt64;
  enabledDEPRECATED @19 :Bool;
  steerOverrideDEPRECATED @20 :Bool;
  canMonoTimesDEPRECATED @21 :List(UInt64);
  vCruiseDEPRECATED @22 :Float32;
  rearViewCamDEPRECATED @23 :Bool;
  alertText1DEPRECATED @24 :Text;
  alertText2DEPRECATED @25 :Text;
  awarenessStatusDEPRECATED @26 :Float32;
  angleModelBiasDEPRECATED @27 :Float32;
  longitudinalPlanMonoTime @28 :UInt64;
  steeringAngleDesiredDegDEPRECATED @29 :Float32;
  longControlState @30 :Car.CarControl.Actuators.LongControlState;
  stateDEPRECATED @31 :SelfdriveState.OpenpilotState;
  vEgoRawDEPRECATED @32 :Float32;
  ufAccelCmd @33 :Float32;
  ufSteerDEPRECATED @34 :Float32;
  aTargetDEPRECATED @35 :Float32;
  activeDEPRECATED @36 :Bool;
  curvature @37 :Float32;
  alertStatusDEPRECATED @38 :SelfdriveState.AlertStatus;
  alertSizeDEPRECATED @39 :SelfdriveState.AlertSize;
  gpsPlannerActiveDEPRECATED @40 :Bool;
  engageableDEPRECATED @41 :Bool;
  alertBlinkingRateDEPRECATED @42 :Float32;
  driverMonitoringOnDEPRECATED @43 :Bool;
  alertTypeDEPRECATED @44 :Text;
  alertSoundDEPRECATED @45 :Text;
  vCurvatureDEPRECATED @46 :Float32;
  decelForTurnDEPRECATED @47 :Bool;
  startMonoTimeDEPRECATED @48 :UInt64;
  mapValidDEPRECATED @49 :Bool;
  lateralPlanMonoTime @50 :UInt64;
  forceDecel @51 :Bool;
  decelForModelDEPRECATED @54 :Bool;
  alertSound2DEPRECATED @56 :SelfdriveState.AudibleAlert;
  canErrorCounterDEPRECATED @57 :UInt32;
  desiredCurvature @61 :Float32;
  desiredCurvatureRateDEPRECATED @62 :Float32;
  vCruiseClusterDEPRECATED @63 :Float32;
  experimentalModeDEPRECATED @64 :Bool;
  personalityDEPRECATED @66 :LongitudinalPersonality;

  lateralControlState :union {
    indiStateDEPRECATED @52 :AnyPointer;
    pidState @53 :AnyPointer;
    lqrStateDEPRECATED @55 :AnyPointer;
    angleState @58 :AnyPointer;
    debugState @59 :AnyPointer;
    torqueState @60 :AnyPointer;
    curvatureState @65 :AnyPointer;
  }
}
